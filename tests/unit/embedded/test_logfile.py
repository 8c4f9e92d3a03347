from __future__ import annotations

from pathlib import Path

import pytest

from knowledge_worker.embedded import logfile
from knowledge_worker.embedded.logfile import LogFile, tail


def test_a_log_begins_anew_when_it_is_full_and_keeps_the_former(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "MAX_BYTES", 10)
    path = tmp_path / "api.log"
    with LogFile(path) as log:
        for line in (b"first", b"second", b"third"):
            log.write(line)

    assert path.read_bytes() == b"third\n"
    assert path.with_name("api.log.1").read_bytes() == b"first\nsecond\n"


def test_a_log_is_continued(tmp_path: Path) -> None:
    for line in (b"before", b"after"):
        with LogFile(tmp_path / "api.log") as log:
            log.write(line)

    assert (tmp_path / "api.log").read_bytes() == b"before\nafter\n"


def test_a_log_that_cannot_be_written_costs_the_line_only(tmp_path: Path) -> None:
    with LogFile(tmp_path / "missing" / "api.log") as log:
        log.write(b"lost")

    assert not (tmp_path / "missing").exists()


def test_the_tail_is_what_came_after(tmp_path: Path) -> None:
    path = tmp_path / "postgres.log"
    path.write_text("old\nnew\n")

    assert tail(path, since=4) == "new\n"
    path.write_bytes(b"x" * 100_000)
    assert len(tail(path, since=0)) == 65_536
