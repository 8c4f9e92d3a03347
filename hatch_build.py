"""Build hook: the wheel carries ``api/`` and ``beat_schedule.py`` under names that no user's project has.

An editable install gets no copies: they would go stale at the first edit (docs/decisions/0004-api-package-name.md).
"""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSTALLED_AS = {"api": "knowledge_worker_api", "beat_schedule.py": "knowledge_worker_beat_schedule.py"}


class InstalledNames(BuildHookInterface[Any]):
    """Renames what lies beside the package in the repository."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the renamed files to a wheel that is no editable one."""
        if version != "editable":
            build_data["force_include"].update(INSTALLED_AS)
