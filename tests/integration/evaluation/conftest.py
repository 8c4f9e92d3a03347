"""Fixtures of processes that share a database."""

from ..managed.conftest import make, providers  # noqa: F401 - fixtures
