from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import knowledge_worker
from knowledge_worker._bundled import load_api, load_beat_schedule

TREE = Path(knowledge_worker.__file__).resolve().parent.parent


def run(code: str, *, cwd: Path, first_on_path: Path) -> str:
    """What ``code`` prints in a fresh process; ``first_on_path`` is searched before everything else."""
    environment = {**os.environ, "PYTHONPATH": str(first_on_path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_parts_are_loaded_once_under_their_own_names() -> None:
    assert load_api() is load_api() is sys.modules["knowledge_worker_api"]
    assert load_beat_schedule() is load_beat_schedule() is sys.modules["knowledge_worker_beat_schedule"]
    assert callable(load_api().create_app)
    assert load_beat_schedule().beat_schedule(tick_ms=5000)["tick"]["task"] == "knowledge.tick"


def test_a_package_of_the_user_named_api_and_ours_work_side_by_side(tmp_path: Path) -> None:
    theirs = tmp_path / "api"
    theirs.mkdir()
    (theirs / "__init__.py").write_text("WHOSE = 'theirs'\n")
    (theirs / "errors.py").write_text("WHOSE = 'theirs'\n")
    (tmp_path / "beat_schedule.py").write_text("WHOSE = 'theirs'\n")
    code = (
        "import api, api.errors, beat_schedule\n"
        "from knowledge_worker._bundled import load_api, load_beat_schedule\n"
        "ours = load_api()\n"
        "import knowledge_worker_api.errors\n"
        "assert ours.create_app and knowledge_worker_api.errors.STATUSES and load_beat_schedule().beat_schedule\n"
        "print(api.WHOSE, api.errors.WHOSE, beat_schedule.WHOSE, ours.__name__)\n"
    )
    assert run(code, cwd=tmp_path, first_on_path=tmp_path) == "theirs theirs theirs knowledge_worker_api\n"


@pytest.mark.skipif(not (TREE / "api").is_dir(), reason="needs the source tree")
def test_installed_without_a_source_tree_the_installed_copies_are_loaded(tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(TREE / "knowledge_worker", site / "knowledge_worker")
    shutil.copytree(TREE / "api", site / "knowledge_worker_api")
    shutil.copy(TREE / "beat_schedule.py", site / "knowledge_worker_beat_schedule.py")
    code = (
        "from knowledge_worker._bundled import load_api, load_beat_schedule\n"
        "print(load_api().__file__, load_beat_schedule().__file__)\n"
    )
    expected = f"{site / 'knowledge_worker_api' / '__init__.py'} {site / 'knowledge_worker_beat_schedule.py'}\n"
    assert run(code, cwd=tmp_path, first_on_path=site) == expected


@pytest.mark.skipif(not (TREE / "api").is_dir(), reason="needs the source tree")
def test_the_source_tree_wins_over_a_stale_installed_copy(tmp_path: Path) -> None:
    stale = tmp_path / "knowledge_worker_api"
    stale.mkdir()
    (stale / "__init__.py").write_text("raise RuntimeError('stale')\n")
    code = "from knowledge_worker._bundled import load_api\nprint(load_api().__file__)\n"
    assert run(code, cwd=tmp_path, first_on_path=tmp_path) == f"{TREE / 'api' / '__init__.py'}\n"
