"""The version of this program, as it was installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("knowledge-worker")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0"
