"""The Git source: a commit's files by the rules of a folder, fetched only when the ref moved, nothing leaked."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from knowledge_worker.errors import ConfigurationError, PassCancelledError, SourceError
from knowledge_worker.sources.folder import folder
from knowledge_worker.sources.git import GitSource, git
from knowledge_worker.sources.reading import ReadContext, SourceRead, read_sources

if TYPE_CHECKING:
    from .conftest import GitRedirect, GitServer, Repository


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def made(address: object, cache: Path, **options: Any) -> GitSource:
    source = git(address, cache_dir=cache, **options)  # type: ignore[arg-type]
    assert isinstance(source, GitSource)
    return source


def read(source: GitSource) -> tuple[dict[str, str], SourceRead]:
    context = ReadContext(kind="git", cancelled=lambda: False)
    documents = {document.id: document.content for document in source.documents(context)}
    return documents, context.result()


def test_the_files_of_the_newest_commit_are_read_in_the_order_of_a_folder(
    repository: Repository, cache: Path, tmp_path: Path
) -> None:
    files = ["a.md", "a/b.md", "a-b.md", "a/b/c.md", "ä.md", "Ü/x y.txt", "z.rst", ".hidden/d.md", ".e.md"]
    repository.commit({file: f"# Title of {file}\n" for file in files})
    repository.write({"uncommitted.md": "not read"})
    source = made(repository.path, cache)

    context = ReadContext(kind="git", cancelled=lambda: False)
    documents = list(source.documents(context))

    assert [document.id for document in documents] == sorted(files[:6])
    assert [document.title for document in documents] == [f"Title of {document.id}" for document in documents]
    assert all(document.source == document.id for document in documents)
    assert context.result().skipped == 0
    (repository.path / "uncommitted.md").unlink()
    from_folder = folder(repository.path)
    assert documents == list(from_folder.documents(ReadContext(kind="folder", cancelled=lambda: False)))


@pytest.mark.parametrize("form", ["path", "file_url", "bare"])
def test_a_local_repository_is_read_whatever_its_form(repository: Repository, cache: Path, form: str) -> None:
    repository.commit({"a.md": "text"})
    address: object = repository.path
    if form == "file_url":
        address = repository.path.as_uri()
    elif form == "bare":
        address = repository.path.with_name("bare.git")
        repository.run("clone", "--quiet", "--bare", ".", str(address))

    source = made(address, cache)
    source.check()

    assert read(source)[0] == {"a.md": "text"}


def test_a_shallow_checkout_as_of_a_build_is_read(repository: Repository, cache: Path) -> None:
    repository.commit({"a.md": "one"})
    repository.commit({"a.md": "two"})
    checkout = repository.path.with_name("checkout")
    repository.run("clone", "--quiet", "--depth=1", repository.path.as_uri(), str(checkout))

    assert read(made(checkout, cache))[0] == {"a.md": "two"}


def test_refs_name_branches_tags_and_commits(repository: Repository, cache: Path) -> None:
    first = repository.commit({"a.md": "one"})
    repository.run("tag", "light")
    repository.run("tag", "--annotate", "--message=m", "v1.0")
    repository.run("branch", "feature/main")
    repository.commit({"a.md": "two"})
    repository.run("tag", "main")  # a branch of that name wins
    repository.commit({"a.md": "three"})

    for ref, content in {
        "HEAD": "three",
        "main": "three",
        "refs/heads/main": "three",
        "refs/tags/main": "two",
        "light": "one",
        "v1.0": "one",
        "feature/main": "one",
        first: "one",
    }.items():
        assert read(made(repository.path, cache, ref=ref))[0] == {"a.md": content}, ref

    with pytest.raises(SourceError, match='has no branch or tag "feature"'):
        read(made(repository.path, cache, ref="feature"))
    with pytest.raises(SourceError, match="git failed"):
        read(made(repository.path, cache, ref="0" * 40))


def test_an_empty_repository_has_no_commit_to_read(repository: Repository, cache: Path) -> None:
    with pytest.raises(SourceError, match="has no commit"):
        read(made(repository.path, cache))


def test_ids_are_relative_to_the_path(repository: Repository, cache: Path) -> None:
    repository.commit({"docs/guide/a.md": "a", "docs/guide/.x/b.md": "b", "docs/c.md": "c", "file": "f"})

    assert list(read(made(repository.path, cache, path="./docs/guide/"))[0]) == ["a.md"]
    assert list(read(made(repository.path, cache, path="docs"))[0]) == ["c.md", "guide/a.md"]
    for absent in ("absent", "file"):
        with pytest.raises(SourceError, match=f'has no directory "{absent}"'):
            read(made(repository.path, cache, path=absent))


def test_what_is_no_readable_text_file_is_reported_and_skipped(repository: Repository, cache: Path) -> None:
    inner = type(repository)(repository.path.with_name("inner"))
    inner.commit({"inside.md": "never read"})
    repository.commit({"good.md": "good", "target/t.md": "t"})
    (repository.path / "link.md").symlink_to("/etc/passwd")
    (repository.path / "linked").symlink_to("target")
    repository.run("submodule", "--quiet", "add", str(inner.path), "module")
    repository.write({"large.md": b"x" * 1_048_577, "largest.md": b"x" * 1_048_576, "latin.md": b"secret \xfc"})
    name = os.fsencode(repository.path) + b"/\xff.md"
    Path(os.fsdecode(name)).write_text("x")
    repository.write({f"{'d' * 200}/{'e' * 55}.md": "x"})
    repository.commit()

    documents, result = read(made(repository.path, cache))

    assert list(documents) == ["good.md", "largest.md", "target/t.md"]
    assert {report.split(":")[0][:20] for report in result.reports} == {
        *("link.md", "linked", "module", "large.md", "latin.md", "\\udcff.md", "d" * 20)
    }
    assert not result.incomplete
    assert not any("secret" in report for report in result.reports)


def test_a_moved_ref_is_fetched_and_an_unmoved_one_is_not(
    repository: Repository, git_server: GitServer, cache: Path
) -> None:
    source = made(f"http://reader:pass-w0rd@127.0.0.1:{git_server.port}/origin/.git", cache)

    def fetched() -> int:
        packs = git_server.requests.count("/origin/.git/git-upload-pack")
        git_server.requests.clear()
        return packs

    repository.commit({"a.md": "one", "b.md": "b" * 100_000})
    assert read(source)[0]["a.md"] == "one"
    first = fetched()
    assert read(source)[0]["a.md"] == "one"
    unmoved = fetched()
    repository.commit({"a.md": "two"})
    repository.run("reset", "--quiet", "--hard")
    assert read(source)[0]["a.md"] == "two"
    moved = fetched()
    repository.run("reset", "--quiet", "--hard", "HEAD~1")  # a forced push backwards
    assert read(source)[0]["a.md"] == "one"

    assert unmoved == 1  # the question what the ref points at
    assert first > unmoved
    assert moved > unmoved


def test_history_is_not_fetched(repository: Repository, cache: Path) -> None:
    for number in range(5):
        repository.commit({"a.md": str(number)})
    read(made(repository.path, cache))

    [copy] = cache.glob("*.git")
    count = subprocess.run(
        ["git", "--git-dir", copy, "rev-list", "--all", "--count"], check=True, capture_output=True, text=True
    )
    assert count.stdout.strip() == "1"


def test_credentials_reach_git_and_nothing_else(
    repository: Repository, git_server: GitServer, cache: Path, tmp_path: Path
) -> None:
    repository.commit({"a.md": "text"})
    address = f"http://reader:pass-w0rd@127.0.0.1:{git_server.port}/origin/.git"
    source = made(address, cache)

    assert read(source)[0] == {"a.md": "text"}
    said = [repr(source), source.fingerprint]
    for wrong in (address.replace("origin", "absent"), address.replace("pass-w0rd", "pass-word")):
        with pytest.raises(SourceError) as raised:
            list(read_sources([made(wrong, cache)]))
        said += [str(raised.value), str(raised.value.__cause__), repr(raised.value.__cause__)]
    stored = [file.read_bytes() for file in cache.rglob("*") if file.is_file()]

    assert not any("pass-w" in text or "reader" in text for text in said)
    assert not any(b"pass-w" in content for content in stored)
    assert "127.0.0.1" in said[1]


def test_a_redirect_takes_no_credentials_to_another_address(git_redirect: GitRedirect, cache: Path) -> None:
    with pytest.raises(SourceError):
        read(made(f"http://reader:pass-w0rd@127.0.0.1:{git_redirect.port}/origin/.git", cache))

    assert git_redirect.asked == ["Basic"]
    assert git_redirect.elsewhere == [""] * len(git_redirect.elsewhere) != []


@pytest.mark.parametrize("scheme", ["file", "ftp", "ext", "ssh"])
def test_a_redirect_leads_to_http_only(
    repository: Repository, git_redirect: GitRedirect, cache: Path, scheme: str
) -> None:
    repository.commit({"a.md": "text"})
    git_redirect.location = f"{scheme}://{repository.path}/.git/info/refs?service=git-upload-pack"
    with pytest.raises(SourceError, match="git failed"):
        read(made(f"http://reader:pass-w0rd@127.0.0.1:{git_redirect.port}/origin/.git", cache))


def test_a_password_on_the_way_is_not_on_a_command_line(cache: Path, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "bin").mkdir()
    fake = tmp_path / "bin" / "git"
    fake.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\necho "fatal: no https://u:pass-w0rd@h" >&2\nexit 1\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")

    with pytest.raises(SourceError) as raised:
        read(made("https://u:pass-w0rd@h.example/x.git", cache))

    assert "pass-w0rd" not in (tmp_path / "calls").read_text()
    assert raised.value.message == "https://h.example/x.git: git failed: no https://h"


def test_the_users_own_git_configuration_and_hooks_are_left_out(
    repository: Repository, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.commit({"a.md": "text"})
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    (home / "hooks" / "reference-transaction").write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    (home / "hooks" / "reference-transaction").chmod(0o755)
    configuration = f'[core]\n hooksPath = {home}/hooks\n[url "/nowhere"]\n insteadOf = {repository.path}\n'
    (home / ".gitconfig").write_text(configuration)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))

    assert read(made(repository.path, cache))[0] == {"a.md": "text"}
    assert not (tmp_path / "hooked").exists()


@pytest.mark.parametrize(
    "address",
    [
        *("", "-uupload", "ext::sh -c touch% x", "fd::3", "ftp://h.example/x", "https://", "https:///x", 3, b"x"),
        *("ssh://-oProxyCommand=x/y", "ssh://-o@h.example/y", "https://h.example:port/x", "a\nb", "gopher://x/y"),
    ],
)
def test_addresses_git_must_not_see_are_refused(address: object) -> None:
    with pytest.raises(ConfigurationError, match=r"^git\(\)"):
        git(address)  # type: ignore[arg-type]


def test_a_refused_address_does_not_show_its_password() -> None:
    for address in ("ftp://u:pass-w0rd@h.example/x", "https://u:pass-w0rd@h.example:port/x"):
        with pytest.raises(ConfigurationError) as refusal:
            git(address)
        assert "pass-w0rd" not in refusal.value.message


@pytest.mark.parametrize(
    "ref", ["", "-x", "--upload-pack=x", "a b", "a..b", "a:b", "a^", "a~1", "a\n", "a.lock", "/a", 3]
)
def test_refs_git_could_not_have_are_refused(ref: object) -> None:
    with pytest.raises(ConfigurationError, match="ref"):
        git("https://h.example/x", ref=ref)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        *(
            {"path": "/etc"},
            {"path": "a/../b"},
            {"path": "a\nb"},
            {"path": 3},
            {"trusted": "no"},
            {"extensions": ".md"},
        ),
        *({"timeout_ms": 0}, {"timeout_ms": True}, {"timeout_ms": 1.5}, {"cache_dir": ""}, {"cache_dir": 3}),
    ],
)
def test_other_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        git("https://h.example/x", **options)


def test_it_is_untrusted_unless_said_and_fingerprints_tell_options_apart(tmp_path: Path) -> None:
    address = "https://u:p4ss@h.example/x"
    variants = [
        git(address),
        git(address, ref="main"),
        git(address, path="docs"),
        git(address, trusted=True),
        git(address, extensions=["rst"]),
        git("https://h.example/y"),
        git("git@h.example:x"),
    ]

    assert [variant.trusted for variant in variants] == [False, False, False, True, False, False, False]
    assert len({variant.fingerprint for variant in variants}) == len(variants)
    assert git("https://h.example/x", cache_dir=tmp_path).fingerprint == variants[0].fingerprint


def test_check_says_what_is_wrong_with_a_local_repository_and_asks_no_remote_one(
    tmp_path: Path, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="no such directory"):
        git(tmp_path / "absent").check()
    with pytest.raises(ConfigurationError, match="no Git repository"):
        git(tmp_path).check()
    assert git(repository.path).check() is None
    assert git("https://127.0.0.1:1/x.git").check() is None
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="install git"):
        git(repository.path).check()


def test_a_remote_that_does_not_answer_is_given_up(cache: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = made(f"http://127.0.0.1:{silent.getsockname()[1]}/x.git", cache, timeout_ms=500)

        with pytest.raises(SourceError, match=r"git did not answer in 0\.5 s"):
            read(source)


def test_a_cancelled_pass_interrupts_a_fetch_that_hangs(cache: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        source = made(f"http://127.0.0.1:{silent.getsockname()[1]}/x.git", cache)
        stop = threading.Event()
        connections: list[socket.socket] = []

        def stop_when_asked() -> None:
            connections.append(silent.accept()[0])
            stop.set()

        asked = threading.Thread(target=stop_when_asked)
        asked.start()

        with pytest.raises(PassCancelledError):
            list(source.documents(ReadContext(kind="git", cancelled=stop.is_set)))
        asked.join()
        connections[0].close()


def test_a_failed_fetch_leaves_the_copy_as_it_was(repository: Repository, cache: Path) -> None:
    repository.commit({"a.md": "text"})
    source = made(repository.path, cache)
    read(source)
    moved = repository.path.with_name("moved")
    repository.path.rename(moved)

    with pytest.raises(SourceError, match="does not appear to be a git repository"):
        read(source)
    moved.rename(repository.path)
    assert read(source)[0] == {"a.md": "text"}


@pytest.mark.parametrize("damage", ["blob", "tree", "head", "locks"])
def test_a_damaged_copy_repairs_itself(repository: Repository, cache: Path, damage: str) -> None:
    repository.commit({"a.md": "a", "sub/b.md": "b", "sub/c.md": "c"})
    source = made(repository.path, cache)
    read(source)
    [copy] = cache.glob("*.git")

    def remove(name: str) -> None:
        oid = repository.run("rev-parse", name)
        (copy / "objects" / oid[:2] / oid[2:]).unlink()

    match damage:
        case "blob":
            remove("HEAD:sub/b.md")
        case "tree":
            remove("HEAD:sub")
        case "head":
            (copy / "HEAD").unlink()
        case _:
            (copy / "shallow.lock").touch()
            (copy / "refs" / "knowledge" / (next((copy / "refs" / "knowledge").iterdir()).name + ".lock")).touch()
            repository.commit({"a.md": "changed"})

    if damage in ("blob", "tree"):
        with pytest.raises(SourceError, match="damaged"):
            read(source)
    assert list(read(source)[0]) == ["a.md", "sub/b.md", "sub/c.md"]


def test_many_processes_share_one_copy(repository: Repository, cache: Path, tmp_path: Path) -> None:
    repository.commit({f"{number}.md": "text" for number in range(20)})
    script = tmp_path / "reader.py"
    script.write_text(
        "import sys\n"
        "from knowledge_worker.sources.git import git\n"
        "from knowledge_worker.sources.reading import read_sources\n"
        "read = read_sources([git(sys.argv[1], cache_dir=sys.argv[2])])\n"
        "print(sum(1 for _ in read), read.skipped)\n"
    )
    arguments = [sys.executable, str(script), str(repository.path), str(cache)]
    processes = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(4)]

    assert [process.communicate()[0].strip() for process in processes] == ["20 0"] * 4
    assert len(list(cache.glob("*.git"))) == 1


def test_another_process_that_fetches_is_waited_for_up_to_the_time_limit(repository: Repository, cache: Path) -> None:
    repository.commit({"a.md": "text"})
    source = made(repository.path, cache, timeout_ms=300)
    read(source)
    [lock] = cache.glob("*.lock")
    with lock.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(SourceError, match="another process"):
            read(source)

        patient = made(repository.path, cache)
        release = threading.Thread(target=lambda: (time.sleep(0.3), fcntl.flock(held, fcntl.LOCK_UN)))
        release.start()
        assert read(patient)[0] == {"a.md": "text"}
        release.join()


def test_a_cache_that_cannot_be_written_is_said_in_one_line(repository: Repository, tmp_path: Path) -> None:
    repository.commit({"a.md": "text"})
    (tmp_path / "file").touch()

    with pytest.raises(SourceError, match="pass cache_dir="):
        read(made(repository.path, tmp_path / "file" / "cache"))


def test_a_reader_that_stops_early_leaves_no_process_behind(repository: Repository, cache: Path) -> None:
    repository.commit({f"{number}.md": "text" for number in range(500)})
    documents = made(repository.path, cache).documents(ReadContext(kind="git", cancelled=lambda: False))
    next(documents)
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    before = children.read_text().split()

    documents.close()

    assert len(before) >= 2
    assert not set(before) & set(children.read_text().split())
    shutil.rmtree(cache)
