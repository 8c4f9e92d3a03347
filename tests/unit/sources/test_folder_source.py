"""Specification rules 10 to 12: what a folder yields, what it reports, what makes it incomplete."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from knowledge_worker.errors import ConfigurationError, PassCancelledError, SourceError
from knowledge_worker.sources.folder import FolderSource, folder
from knowledge_worker.sources.reading import ReadContext, SourceRead

NOBODY = 65534


def make_context() -> ReadContext:
    return ReadContext(kind="folder", cancelled=lambda: False)


def read(path: Path, **options: object) -> tuple[list[str], SourceRead]:
    context = make_context()
    ids = [document.id for document in source(path, **options).documents(context)]
    return ids, context.result()


def source(path: Path, **options: object) -> FolderSource:
    made = folder(path, **options)  # type: ignore[arg-type]
    assert isinstance(made, FolderSource)
    return made


def write(root: Path, *paths: str, text: str = "text") -> None:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A directory that any user can reach, unlike pytest's own."""
    root = Path(tempfile.mkdtemp())
    root.chmod(0o755)
    yield root
    for directory, _, _ in os.walk(root):
        Path(directory).chmod(0o755)
    shutil.rmtree(root)


@pytest.fixture
def unprivileged() -> Iterator[None]:
    """Permission bits do not stop root, so the test runs as somebody else."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_ids_come_in_code_point_order_of_the_whole_path(tmp_path: Path) -> None:
    paths = [
        "a.md",
        "a/b.md",
        "a-b.md",
        "a/b/c.md",
        "a/b-c.md",
        "B.md",
        "a0.md",
        "ä.md",
        "z/\U0001f600.md",
        "z/\uffee.md",
    ]
    write(tmp_path, *paths)

    ids, result = read(tmp_path)

    assert ids == sorted(paths)
    assert (result.skipped, result.incomplete) == (0, False)


def test_usual_extensions_are_read_whatever_their_case_and_dot_entries_are_skipped(tmp_path: Path) -> None:
    write(tmp_path, "1.md", "2.MARKDOWN", "3.Mdx", "4.txt", "5.rst", "6", ".7.md", ".git/8.md", "9.md.bak")

    ids, result = read(tmp_path)

    assert ids == ["1.md", "2.MARKDOWN", "3.Mdx", "4.txt"]
    assert result.skipped == 0


@pytest.mark.parametrize("extensions", [["rst"], [".RST"], (".rst", "rst")])
def test_extensions_are_taken_with_and_without_their_dot(tmp_path: Path, extensions: list[str]) -> None:
    write(tmp_path, "a.rst", "b.md", "c.Rst")

    assert read(tmp_path, extensions=extensions)[0] == ["a.rst", "c.Rst"]


@pytest.mark.parametrize("extensions", [".md", b".md", [], [""], ["."], ["*.md"], ["a/b"], [3], 3])
def test_bad_extensions_are_refused_when_called(extensions: object) -> None:
    with pytest.raises(ConfigurationError, match="extension"):
        folder(".", extensions=extensions)  # type: ignore[arg-type]


@pytest.mark.parametrize(("path", "trusted"), [("", True), ("a\0b", True), (3, True), (b"docs", True), ("docs", 1)])
def test_other_bad_options_are_refused_when_called(path: object, trusted: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^folder\(\)"):
        folder(path, trusted=trusted)  # type: ignore[arg-type]


def test_the_path_is_resolved_when_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "docs/a.md")
    monkeypatch.chdir(tmp_path)
    declared = folder("./docs")
    monkeypatch.chdir("/")

    assert [document.id for document in declared.documents(make_context())] == ["a.md"]  # type: ignore[union-attr]
    assert str(tmp_path) not in declared.fingerprint


def test_fingerprints_tell_options_apart() -> None:
    made = [folder("a"), folder("b"), folder("a", trusted=False), folder("a", extensions=[".md"])]

    assert len({one.fingerprint for one in made}) == len(made)
    assert folder("./a/").fingerprint == folder("a").fingerprint


def test_documents_carry_path_title_and_text_without_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "guide.md").write_bytes(b"\xef\xbb\xbf# The guide\r\n\r\nText\r\n")
    (tmp_path / "sub" / "plain.txt").write_bytes(b"")

    guide, plain = source(tmp_path).documents(make_context())

    assert (guide.id, guide.source, guide.title) == ("sub/guide.md", "sub/guide.md", "The guide")
    assert guide.content == "# The guide\r\n\r\nText\r\n"
    assert (plain.id, plain.title, plain.content) == ("sub/plain.txt", "plain.txt", "")


def test_what_is_no_readable_text_file_is_reported_and_skipped(tmp_path: Path) -> None:
    write(tmp_path, "good.md", "target/inside.md")
    (tmp_path / "link.md").symlink_to("good.md")
    (tmp_path / "linked").symlink_to("target")
    (tmp_path / "dangling.md").symlink_to("nowhere")
    os.mkfifo(tmp_path / "fifo.md")
    (tmp_path / "large.md").write_bytes(b"x" * 1_048_577)
    (tmp_path / "largest.md").write_bytes(b"x" * 1_048_576)
    (tmp_path / "latin.md").write_bytes("Müll geheim".encode("latin-1"))
    (tmp_path / "utf16.md").write_text("secret words", encoding="utf-16")
    (tmp_path / "utf16le.md").write_text("secret words", encoding="utf-16-le")
    (tmp_path / "utf32be.md").write_text("secret words", encoding="utf-32-be")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text("x")
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xfe")).mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket.md"))

        ids, result = read(tmp_path)

    assert ids == ["good.md", "largest.md", "target/inside.md"]
    assert not result.incomplete
    reported = {report.split(":")[0] for report in result.reports}
    assert reported == {
        *("link.md", "linked", "dangling.md", "fifo.md", "large.md", "latin.md"),
        *("utf16.md", "utf16le.md", "utf32be.md", "socket.md", "\\udcff.md", "\\udcfe"),
    }
    assert not any("secret" in report or "geheim" in report for report in result.reports)


def test_a_stray_nul_makes_no_file_utf_16(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"one NUL \x00 only")
    (tmp_path / "b.md").write_bytes(b"a\x00")

    assert read(tmp_path)[0] == ["a.md", "b.md"]


def test_paths_over_255_characters_are_reported(tmp_path: Path) -> None:
    inside = "/".join(["d" * 49] * 5)  # 249 characters
    write(tmp_path, f"{inside}/ab.md", f"{inside}/abc.md", "ä" * 120 + ".md")
    deep = tmp_path / inside / "eeee" / "f"
    deep.mkdir(parents=True)
    write(deep, "x.md")

    ids, result = read(tmp_path)

    assert [len(one) for one in ids] == [255, 123]
    assert result.skipped == 2
    assert not result.incomplete


@pytest.mark.usefixtures("tmp_path")
def test_unreadable_entries_make_the_read_incomplete(reachable: Path, request: pytest.FixtureRequest) -> None:
    write(reachable, "a.md", "closed/b.md", "locked.md", "listable/c.md", "z.md")
    (reachable / "closed").chmod(0)
    (reachable / "locked.md").chmod(0)
    (reachable / "listable").chmod(0o444)
    request.getfixturevalue("unprivileged")

    ids, result = read(reachable)

    assert ids == ["a.md", "z.md"]
    assert [report.split(":")[0] for report in result.reports] == ["closed", "listable/c.md", "locked.md"]
    assert result.reasons == result.reports


def test_an_unlistable_root_is_a_configuration_error_at_the_boot_and_a_failed_read_later(
    reachable: Path, request: pytest.FixtureRequest
) -> None:
    root = reachable / "root"
    write(root, "a.md")
    root.chmod(0)
    request.getfixturevalue("unprivileged")

    with pytest.raises(ConfigurationError, match="Permission denied"):
        source(root).check()
    with pytest.raises(SourceError, match="Permission denied"):
        list(source(root).documents(make_context()))


def test_a_missing_root_is_said_in_one_line(tmp_path: Path) -> None:
    write(tmp_path, "file.md")

    with pytest.raises(ConfigurationError, match="there is no such directory"):
        folder(tmp_path / "absent").check()
    with pytest.raises(ConfigurationError, match="it is no directory"):
        folder(tmp_path / "file.md").check()
    assert folder(tmp_path).check() is None


def test_a_root_that_vanished_fails_the_read(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    root.mkdir()
    declared = source(root)
    declared.check()
    root.rmdir()

    with pytest.raises(SourceError, match="No such file"):
        list(declared.documents(make_context()))


def test_a_root_removed_in_mid_read_fails_it_instead_of_losing_the_rest(tmp_path: Path) -> None:
    root = tmp_path / "docs"
    write(root, "a.md", "b/c.md", "d.md")
    documents = source(root).documents(make_context())
    assert next(documents).id == "a.md"

    shutil.rmtree(root)
    write(root, "new.md")

    with pytest.raises(SourceError, match="replaced or removed"):
        list(documents)


def test_what_vanishes_after_it_was_listed_is_simply_not_there(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b.md", "c/d.md", "e.md")
    context = make_context()
    documents = source(tmp_path).documents(context)
    next(documents)

    (tmp_path / "b.md").unlink()
    shutil.rmtree(tmp_path / "c")

    assert [document.id for document in documents] == ["e.md"]
    assert (context.result().skipped, context.result().incomplete) == (0, False)


@pytest.mark.parametrize("kind", ["link", "fifo", "large"])
def test_a_file_replaced_after_it_was_listed_is_not_read(tmp_path: Path, kind: str) -> None:
    write(tmp_path / "docs", "a.md", "b.md")
    write(tmp_path, "outside.md", text="outside")
    context = make_context()
    documents = source(tmp_path / "docs").documents(context)
    next(documents)

    swapped = tmp_path / "docs" / "b.md"
    swapped.unlink()
    match kind:
        case "link":
            swapped.symlink_to(tmp_path / "outside.md")
        case "fifo":
            os.mkfifo(swapped)
        case _:
            swapped.write_bytes(b"x" * 2_000_000)

    assert list(documents) == []
    assert context.result().skipped == 1


def test_a_directory_replaced_by_a_link_after_it_was_listed_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "docs", "a.md", "b/c.md")
    write(tmp_path / "outside", "c.md", text="outside")
    context = make_context()
    documents = source(tmp_path / "docs").documents(context)
    next(documents)

    shutil.rmtree(tmp_path / "docs" / "b")
    (tmp_path / "docs" / "b").symlink_to(tmp_path / "outside")

    assert list(documents) == []
    assert context.result().incomplete


def test_a_root_that_is_a_link_is_read(tmp_path: Path) -> None:
    write(tmp_path / "release-7", "a.md")
    (tmp_path / "current").symlink_to("release-7")

    assert read(tmp_path / "current")[0] == ["a.md"]


def test_a_cancelled_read_stops_at_the_next_file_and_leaves_nothing_open(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "b/c.md", "b/d.md")
    stop = threading.Event()
    before = len(list(Path("/proc/self/fd").iterdir()))
    documents = source(tmp_path).documents(ReadContext(kind="folder", cancelled=stop.is_set))
    assert [next(documents).id, next(documents).id] == ["a.md", "b/c.md"]

    stop.set()

    with pytest.raises(PassCancelledError):
        next(documents)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
