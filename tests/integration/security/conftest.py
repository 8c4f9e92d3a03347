from __future__ import annotations

from ..managed.conftest import make, providers  # noqa: F401 - fixtures
