"""The commands of managed collections: what they ask for, print and exit with."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from knowledge_worker.domain.collection import Collection, CollectionKind, DocumentCounts
from knowledge_worker.domain.document import (
    Document,
    DocumentInput,
    DocumentPage,
    DocumentStatus,
    FailedDocument,
    PutResult,
    checked_document,
)
from knowledge_worker.errors import (
    CollectionDeclaredError,
    CollectionExistsError,
    CollectionNotFoundError,
    CollectionNotManagedError,
    DocumentNotFoundError,
    InvalidInputError,
    KnowledgeError,
    ServiceUnavailableError,
)

from .conftest import NOW, FakeKnowledge, Terminal, collection

Call = Callable[..., Any]


@dataclass
class Managed:
    """One managed collection ``notes`` with its documents, all of them ready at once."""

    documents: dict[str, Document] = field(default_factory=dict)
    error: KnowledgeError | None = None
    states: list[Collection] = field(default_factory=list)
    failed: list[FailedDocument] = field(default_factory=list)
    at_once: int = 2

    def collection(self, name: str) -> Collection:
        if name != "notes":
            raise CollectionNotFoundError(name)
        if self.states:
            return self.states.pop(0) if len(self.states) > 1 else self.states[0]
        return collection("notes", kind=CollectionKind.MANAGED, documents=DocumentCounts(ready=len(self.documents)))

    def create_collection(self, name: str, *, title: str | None, description: str | None, language: str) -> Collection:
        assert language in ("simple", "english")
        if name == "notes":
            raise CollectionExistsError(f'There is a knowledge collection "{name}" already.')
        return collection(name, kind=CollectionKind.MANAGED, title=title, description=description, serving=None)

    def delete_collection(self, name: str) -> None:
        if name == "handbook":
            raise CollectionDeclaredError(f'Knowledge collection "{name}" is declared in code.')
        self.collection(name)
        self.documents.clear()

    def put_document(self, name: str, id: str, content: str, **options: Any) -> PutResult:  # noqa: A002
        self.collection(name)
        if self.error is not None:
            raise self.error
        checked = checked_document({"id": id, "content": content, **options}, content_min_chars=1)
        before = self.documents.get(id)
        self.documents[id] = Document(
            collection=name, id=id, title=checked.title, source=checked.source, metadata=dict(checked.metadata),
            status=DocumentStatus.READY, error=None, warnings=checked.warnings, hash=checked.hash,
            content=checked.content, version="1", updated_at=NOW,
        )  # fmt: skip
        changed = before is None or before.hash != checked.hash
        status = DocumentStatus.PENDING if changed else DocumentStatus.READY
        return PutResult(
            id=id, status=status, accepted=changed, created=before is None, version="1", warnings=checked.warnings,
            updated_at=NOW,
        )  # fmt: skip

    def put_documents(self, name: str, documents: Iterable[DocumentInput]) -> Iterator[PutResult | KnowledgeError]:
        """Results come some documents later, as they do from the real one."""
        batch: list[DocumentInput] = []
        for document in documents:
            batch.append(document)
            if len(batch) == self.at_once:
                yield from map(self._put, batch)
                batch = []
        yield from map(self._put, batch)

    def _put(self, one: DocumentInput) -> PutResult | KnowledgeError:
        try:
            return self.put_document("notes", one.id, one.content, title=one.title, source=one.source)
        except KnowledgeError as error:
            return error

    def get_document(self, name: str, id: str) -> Document:  # noqa: A002
        if id not in self.documents:
            raise DocumentNotFoundError(name, id)
        return self.documents[id]

    def list_documents(self, name: str, *, status: str | None, limit: int, offset: int) -> DocumentPage:
        found = [one for _, one in sorted(self.documents.items()) if status in (None, one.status)]
        return DocumentPage(
            documents=tuple(found[offset : offset + limit]), total=len(found), limit=limit, offset=offset
        )

    def delete_document(self, name: str, id: str) -> None:  # noqa: A002
        del self.documents[self.get_document(name, id).id]

    def failed_documents(self, name: str, *, limit: int) -> list[FailedDocument]:
        return self.failed


@pytest.fixture
def managed(knowledge: FakeKnowledge, monkeypatch: pytest.MonkeyPatch) -> Managed:
    monkeypatch.setattr("knowledge_worker.cli.import_documents.LOOK_S", 0)
    managed = Managed()
    for name in dir(Managed):
        if not name.startswith("_") and callable(getattr(managed, name)):
            setattr(knowledge, name, getattr(managed, name))
    return managed


@pytest.fixture
def piped(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def pipe(data: bytes) -> None:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    return pipe


# Collections


def test_collections_lists_them_with_their_kind(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.stored = [collection(), collection("notes", kind=CollectionKind.MANAGED, title="My\x1bnotes")]
    lines = call("collections").out.splitlines()
    assert lines[0].split() == ["COLLECTION", "KIND", "STATUS", "DOCUMENTS", "MODEL", "TITLE"]
    assert lines[1].split() == ["handbook", "declared", "ready", "3", "local/test"]
    assert lines[2].split() == ["notes", "managed", "ready", "3", "local/test", "My\ufffdnotes"]
    assert [one["kind"] for one in json.loads(call("collections", "--json").out)["data"]] == ["declared", "managed"]
    knowledge.stored = []
    assert "collections create" in call("collections").out


def test_a_collection_is_created(call: Call, managed: Managed) -> None:
    ended = call("collections", "create", "new", "--title", "T", "--description", "D")
    assert (ended.code, ended.out) == (0, "Created new; it is embedded with local/test.\n")
    shown = json.loads(call("collections", "create", "new", "--title", "T", "--language", "english", "--json").out)
    assert (shown["name"], shown["kind"], shown["title"]) == ("new", "managed", "T")


def test_a_name_that_is_taken_is_said(call: Call, managed: Managed) -> None:
    ended = call("collections", "create", "notes")
    assert (ended.code, ended.err) == (1, 'Error: There is a knowledge collection "notes" already.\n')


def test_deleting_a_collection_wants_yes_where_nobody_can_be_asked(
    call: Call, managed: Managed, piped: Callable[[bytes], None]
) -> None:
    piped(b"y\n")
    managed.put_document("notes", "a", "x")
    ended = call("collections", "delete", "notes")
    assert ended.code == 2
    assert "1 document for good: add --yes" in ended.err
    assert managed.documents
    ended = call("collections", "delete", "notes", "--yes")
    assert (ended.code, ended.out, managed.documents) == (0, "Deleted notes.\n", {})


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_deleting_a_collection_asks_on_a_terminal(
    call: Call, managed: Managed, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    managed.put_document("notes", "a", "x")
    ended = call("collections", "delete", "notes")
    assert ended.code == code
    assert "Delete notes with 1 document for good? [y/N]" in ended.err
    assert bool(managed.documents) == (code == 1)


@pytest.mark.parametrize(("name", "code"), [("other", 3), ("handbook", 1)])
def test_a_collection_that_cannot_be_deleted_is_said(call: Call, managed: Managed, name: str, code: int) -> None:
    assert call("collections", "delete", name, "--yes").code == code


def test_options_stand_anywhere(call: Call, knowledge: FakeKnowledge, managed: Managed) -> None:
    for argv in (
        ("--app", "app:a", "documents", "list", "notes"),
        ("documents", "--app", "app:a", "list", "notes"),
        ("documents", "list", "notes", "--app", "app:a"),
        ("collections", "--app", "app:a"),
    ):
        assert call(*argv).code == 0
        assert knowledge.settings is not None
        assert knowledge.settings.app == "app:a", argv


# Documents


def test_put_reads_a_file(call: Call, managed: Managed, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf# T\xc3\xa4\r\n")
    argv = ("documents", "put", "notes", "guides/a", "a.md", "--title", "T", "--source", "s", "--metadata", '{"n": 1}')
    ended = call(*argv)
    assert (ended.code, ended.out) == (0, "guides/a: stored, to be embedded; it is pending.\n")
    stored = managed.documents["guides/a"]
    assert (stored.content, stored.title, stored.source, stored.metadata) == ("# Tä\r\n", "T", "s", {"n": 1})
    assert call(*argv).out == "guides/a: nothing to embed; it is ready.\n"
    assert json.loads(call(*argv, "--json").out) == {"status": "ready"}


@pytest.mark.parametrize("given", [("-",), ()])
def test_put_reads_standard_input(
    call: Call, managed: Managed, piped: Callable[[bytes], None], given: tuple[str, ...]
) -> None:
    piped("für alle\n".encode())
    assert call("documents", "put", "notes", "a", *given).code == 0
    assert managed.documents["a"].content == "für alle\n"


def test_put_shows_warnings(call: Call, managed: Managed, piped: Callable[[bytes], None]) -> None:
    piped(b"a\x00b")
    assert call("documents", "put", "notes", "a").err.startswith("Warning: content: NUL")


@pytest.mark.parametrize(
    ("data", "problem"),
    [(b"\xff\xfea\x00", "is not UTF-8"), (b"", "content"), (b"x" * 4_300_000, "more than 1048576 characters")],
)
def test_put_refuses_what_is_no_document(
    call: Call, managed: Managed, piped: Callable[[bytes], None], data: bytes, problem: str
) -> None:
    piped(data)
    ended = call("documents", "put", "notes", "a")
    assert ended.code == 2
    assert problem in ended.err
    assert managed.documents == {}


@pytest.mark.parametrize("metadata", ["[1]", "{", "x", "1", "[" * 100_000])
def test_put_refuses_metadata_that_is_no_object(call: Call, managed: Managed, metadata: str) -> None:
    ended = call("documents", "put", "notes", "a", "--metadata", metadata)
    assert ended.code == 2
    assert "no JSON object" in ended.err


def test_put_names_what_is_missing(call: Call, managed: Managed, piped: Callable[[bytes], None]) -> None:
    piped(b"x")
    assert call("documents", "put", "other", "a").code == 3
    assert call("documents", "put", "notes", "a", "absent.md").code == 2
    managed.error = CollectionNotManagedError("Its documents come from sources.")
    piped(b"x")
    assert call("documents", "put", "notes", "a").code == 1


def test_get_prints_the_content_as_it_is(
    call: Call, managed: Managed, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    managed.put_document("notes", "a", "\x1b[31mrot\r\nä")
    assert call("documents", "get", "notes", "a").out == "\x1b[31mrot\r\nä"
    assert call("documents", "get", "notes", "a", terminal=True).out == "\ufffd[31mrot\nä\n"
    assert json.loads(call("documents", "get", "notes", "a", "--json").out)["content"] == "\x1b[31mrot\r\nä"
    ended = call("documents", "get", "notes", "b")
    assert (ended.code, ended.out) == (3, "")

    from knowledge_worker.cli.documents import _write

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(io.FileIO(1, "wb", closefd=False), encoding="ascii"))
        _write("ä\r\n")
    assert capfdbinary.readouterr().out == b"\xc3\xa4\r\n"


def test_list_shows_a_page_and_how_to_go_on(call: Call, managed: Managed) -> None:
    for number in range(5):
        managed.put_document("notes", f"d{number}", "x", title=f"T{number}")
    ended = call("documents", "list", "notes", "--limit", "2", "--offset", "1")
    lines = ended.out.splitlines()
    assert lines[0].split() == ["ID", "STATUS", "TITLE", "CHANGED", "ERROR"]
    assert [line.split()[0] for line in lines[1:]] == ["d1", "d2"]
    assert ended.err == "2 of 5 documents; --offset 3 lists more.\n"
    assert call("documents", "list", "notes").err == "5 documents.\n"
    assert call("documents", "list", "notes", "--status", "failed").out == "0 documents.\n"
    shown = json.loads(call("documents", "list", "notes", "--json").out)
    assert (shown["meta"], len(shown["data"])) == ({"total": 5, "limit": 50, "offset": 0}, 5)
    assert call("documents", "list", "notes", "--status", "odd").code == 2
    assert call("documents", "list", "notes", "--limit", "101").code == 2


def test_a_document_is_deleted(call: Call, managed: Managed) -> None:
    managed.put_document("notes", "a", "x")
    assert call("documents", "delete", "notes", "a").out == "Deleted a.\n"
    assert call("documents", "delete", "notes", "a").code == 3
    assert managed.documents == {}


# Import


@pytest.fixture
def handbook(tmp_path: Path) -> Path:
    folder = tmp_path / "handbook"
    (folder / "leave").mkdir(parents=True)
    (folder / "a.md").write_text("# First\n")
    (folder / "leave" / "b.txt").write_text("b")
    (folder / "c.rst").write_text("c")
    (folder / ".hidden.md").write_text("h")
    return folder


def test_import_puts_the_files_of_a_folder(call: Call, managed: Managed, handbook: Path) -> None:
    ended = call("documents", "import", "notes", str(handbook), "--prefix", "hb/")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "notes: 2 documents: 2 added, 0 changed, 0 unchanged; 0 refused.\n"
    stored = [(one.id, one.title, one.source, one.content) for one in managed.documents.values()]
    assert stored == [
        ("hb/a.md", "First", "hb/a.md", "# First\n"),
        ("hb/leave/b.txt", "b.txt", "hb/leave/b.txt", "b"),
    ]


def test_import_tells_what_changed(call: Call, managed: Managed, handbook: Path) -> None:
    call("documents", "import", "notes", str(handbook))
    (handbook / "a.md").write_text("# Second\n")
    (handbook / "d.md").write_text("d")
    ended = call("documents", "import", "notes", "handbook", "--json")
    assert json.loads(ended.out) == {
        "collection": "notes", "added": 1, "changed": 1, "unchanged": 1, "refused": 0, "skipped": 0, "unreadable": 0,
    }  # fmt: skip
    assert set(managed.documents) == {"a.md", "d.md", "leave/b.txt"}


def test_import_takes_other_extensions_and_named_files(call: Call, managed: Managed, handbook: Path) -> None:
    call("documents", "import", "notes", str(handbook), "--extension", "rst")
    assert list(managed.documents) == ["c.rst"]
    assert call("documents", "import", "notes", "handbook", "--extension", "*").code == 2
    managed.documents.clear()
    call("documents", "import", "notes", "handbook/leave/b.txt", "handbook/c.rst")
    assert list(managed.documents) == ["b.txt", "c.rst"]


def test_import_says_what_it_leaves_out(call: Call, managed: Managed, handbook: Path) -> None:
    (handbook / "binary.md").write_bytes(b"\xff\xfe")
    (handbook / "link.md").symlink_to("a.md")
    (handbook / "empty.md").write_text("")
    ended = call("documents", "import", "notes", str(handbook))
    assert ended.code == 1
    assert ended.out == "notes: 2 documents: 2 added, 0 changed, 0 unchanged; 1 refused; 2 skipped.\n"
    assert sorted(line.partition(":")[0] for line in ended.err.splitlines()) == ["Refused", "Skipped", "Skipped"]
    assert "Refused: empty.md: " in ended.err
    (handbook / "empty.md").unlink()
    assert call("documents", "import", "notes", str(handbook)).code == 0


def test_a_file_that_was_named_and_cannot_be_taken_is_a_failure(call: Call, managed: Managed, handbook: Path) -> None:
    import os

    (handbook / "binary.md").write_bytes(b"\xff\xfe")
    os.mkfifo(handbook / "pipe.md")
    for name in ("binary.md", "pipe.md"):
        ended = call("documents", "import", "notes", f"handbook/{name}")
        assert ended.code == 1
        assert ended.out == "notes: 0 documents: 0 added, 0 changed, 0 unchanged; 0 refused; 1 unreadable.\n"
        assert f"Skipped: handbook/{name}: it is no" in ended.err
    assert call("documents", "import", "notes", "absent").code == 2


def test_two_paths_with_one_id_are_said(call: Call, managed: Managed, handbook: Path) -> None:
    (handbook / "leave" / "a.md").write_text("another")
    ended = call("documents", "import", "notes", "handbook", "handbook/leave/a.md")
    assert ended.code == 1
    assert managed.documents["a.md"].content == "# First\n"
    assert "a.md: another of the paths has this id already" in ended.err


@pytest.mark.parametrize("error", [ServiceUnavailableError("The database is away."), CollectionNotFoundError("notes")])
def test_import_ends_when_nothing_can_be_stored(
    call: Call, managed: Managed, handbook: Path, error: KnowledgeError
) -> None:
    managed.error = error
    ended = call("documents", "import", "notes", str(handbook))
    assert ended.code in (3, 4)
    assert ended.err == f"Error: {error.message}\n"


def counted(pending: int, *, failed: int = 0, **values: Any) -> Collection:
    counts = DocumentCounts(pending=pending, ready=3 - pending, failed=failed)
    return collection("notes", documents=counts, **values)


def test_import_waits_until_all_is_embedded(call: Call, managed: Managed, handbook: Path) -> None:
    managed.states = [counted(2)] * 4 + [counted(0)]
    ended = call("documents", "import", "notes", str(handbook), "--wait")
    assert (ended.code, ended.out.splitlines()[1]) == (0, "All of it is embedded.")
    assert len(managed.states) == 1


def test_import_ends_the_wait_when_a_pass_fails_meanwhile(call: Call, managed: Managed, handbook: Path) -> None:
    earlier = {"error": "No credit.", "retry_at": NOW}
    from datetime import timedelta

    managed.states = [counted(2, **earlier)] * 4 + [counted(2, error="No credit", retry_at=NOW + timedelta(minutes=1))]
    ended = call("documents", "import", "notes", str(handbook), "--wait")
    assert ended.code == 1
    assert ended.err.startswith("Error: 2 documents not embedded yet: No credit. The next attempt is ")
    managed.states = [counted(2, error="No such model.", broken=True)]
    assert call("documents", "import", "notes", str(handbook), "--wait").code == 1


def test_import_says_which_documents_failed(call: Call, managed: Managed, handbook: Path) -> None:
    managed.states = [counted(1), counted(0, failed=1)]
    managed.failed = [FailedDocument(id="a.md", error="Refused by the provider.")]
    ended = call("documents", "import", "notes", str(handbook), "--wait", "--json")
    assert ended.code == 1
    assert ended.err == "Failed: a.md: Refused by the provider.\n"
    assert json.loads(ended.out)["error"] == "1 document of notes failed."


def test_import_waits_at_most_so_long(call: Call, managed: Managed, handbook: Path) -> None:
    managed.states = [counted(2)]
    ended = call("documents", "import", "notes", str(handbook), "--wait", "--timeout", "0.01")
    assert ended.code == 4
    assert "stored but 2 are not embedded yet" in ended.err


def test_import_draws_a_bar_on_a_terminal(
    call: Call, managed: Managed, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from knowledge_worker.cli.progress import Progress

    drawn: list[tuple[str, int, int | None]] = []
    show = Progress.show

    def spy(self: Any, text: str, *, done: int, total: int | None) -> None:
        drawn.append((text, done, total))
        show(self, text, done=done, total=total)

    monkeypatch.setattr(Progress, "show", spy)
    monkeypatch.setattr(Progress, "say", lambda _self, line: drawn.append((line, -1, None)))
    err = Terminal()
    monkeypatch.setattr("knowledge_worker.cli.progress.sys", type("S", (), {"stderr": err}))
    (handbook / "[bold]x.md").write_bytes(b"\xff")
    assert call("documents", "import", "notes", str(handbook)).code == 0
    assert drawn[0] == ("notes", 0, None)
    assert ("notes: 1 of 3 documents", 1, 3) in drawn
    assert ("notes: 2 of 3 documents", 2, 3) in drawn


def test_import_says_now_and_then_how_far_it_is(
    call: Call, managed: Managed, handbook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge_worker.cli.progress.SAY_S", 0)
    ended = call("documents", "import", "notes", str(handbook))
    assert ended.err.splitlines() == ["notes: 1 documents so far", "notes: 2 documents so far"]


def test_import_holds_only_what_is_on_its_way(call: Call, managed: Managed, tmp_path: Path) -> None:
    """A file is read when the store is ready for it, not before."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(20):
        (folder / f"{number:02}.md").write_text("x")
    put = managed.put_document

    def put_and_remove(name: str, id: str, content: str, **options: Any) -> PutResult:  # noqa: A002
        (folder / "19.md").unlink(missing_ok=True)
        return put(name, id, content, **options)

    managed.put_document = put_and_remove  # type: ignore[method-assign]
    ended = call("documents", "import", "notes", "many")
    assert ended.out.startswith("notes: 19 documents: 19 added")


def test_the_error_of_wrong_input_names_no_content(call: Call, managed: Managed, handbook: Path) -> None:
    managed.error = InvalidInputError("The content is empty.", field="content")
    ended = call("documents", "import", "notes", str(handbook))
    assert ended.code == 1
    assert ended.err.splitlines()[0] == "Refused: a.md: The content is empty."
