"""Load the two parts that live beside this package in the source tree: the HTTP API and the schedule.

A user's own project may well have a package named ``api``, so ours is never imported under that name. A wheel installs
it as ``knowledge_worker_api``; in a source tree it is loaded from its place under the same name.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Final

API_MODULE: Final = "knowledge_worker_api"
SCHEDULE_MODULE: Final = "knowledge_worker_beat_schedule"


def load_api() -> ModuleType:
    """The package of the HTTP API, which has ``create_app(knowledge)``."""
    return _load(API_MODULE, Path("api", "__init__.py"))


def load_beat_schedule() -> ModuleType:
    """The module that has ``beat_schedule(tick_ms=...)``."""
    return _load(SCHEDULE_MODULE, Path("beat_schedule.py"))


def _load(name: str, place: Path) -> ModuleType:
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    tree = _source_tree()
    # The tree comes first: an editable install also leaves a copy in site-packages, which goes stale.
    return importlib.import_module(name) if tree is None else _load_file(name, tree / place)


def _source_tree() -> Path | None:
    """The directory of the checkout this package is in, or None when it is installed."""
    root = Path(__file__).resolve().parent.parent
    try:
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):
        return None
    ours = project.get("name") == "knowledge-worker" and (root / "api" / "app.py").is_file()
    return root if ours else None


def _load_file(name: str, file: Path) -> ModuleType:
    is_package = file.name == "__init__.py"
    spec = importlib.util.spec_from_file_location(
        name, file, submodule_search_locations=[str(file.parent)] if is_package else None
    )
    if spec is None or spec.loader is None:
        raise ImportError(f"{file.name} cannot be loaded as {name}.", name=name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
