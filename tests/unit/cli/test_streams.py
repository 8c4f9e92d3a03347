"""Standard streams that are closed, full, or left by their reader: real processes, as a shell starts them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

COMMAND = f"{sys.executable} -m knowledge_worker.cli"


def shell(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of shell; ``kw`` in it is the command."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")}
    return subprocess.run(
        ["bash", "-c", f'set -o pipefail; kw() {{ {COMMAND} "$@"; }}; {line}'],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_closed_standard_output_is_one_line(tmp_path: Path) -> None:
    ended = shell("kw check >&-", tmp_path)
    assert ended.returncode == 1
    assert ended.stderr == "Error: standard output is closed: send it to /dev/null instead.\n"


def test_a_closed_standard_error_harms_nothing(tmp_path: Path) -> None:
    ended = shell("kw check 2>&-", tmp_path)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "declarations are well" in ended.stdout
    assert shell("kw status 2>&-", tmp_path).returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_disk_is_one_line(tmp_path: Path) -> None:
    for buffering in ("PYTHONUNBUFFERED=1", "PYTHONUNBUFFERED="):
        ended = shell(f"export {buffering}; kw check >/dev/full", tmp_path)
        assert ended.returncode == 1
        assert ended.stderr == "Error: output cannot be written: No space left on device.\n"
    assert shell("kw status 2>/dev/full", tmp_path).returncode == 2


def test_a_reader_that_left_is_no_error() -> None:
    left, writer = os.pipe()
    os.close(left)
    ended = subprocess.run([*COMMAND.split(), "--help"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert (ended.returncode, ended.stderr) == (0, "")
