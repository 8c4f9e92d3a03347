"""What a program sees that root starts as another user."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from knowledge_worker.embedded import launch

LOOK = "import os, sys; print(os.getuid(), os.access(sys.argv[1], os.R_OK | os.X_OK), open(sys.argv[1]).read())"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root changes users")
def test_a_program_of_another_user_may_use_what_lies_below_a_closed_directory(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    program = closed / "program"
    program.write_text("found")
    program.chmod(0o700)
    ended = subprocess.run(
        [
            *(sys.executable, launch.__file__, str(os.getpid()), str(int(signal.SIGKILL)), "-1", "65534", "65534"),
            *(sys.executable, "-c", LOOK, str(program)),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout == "65534 True found\n", ended.stderr
