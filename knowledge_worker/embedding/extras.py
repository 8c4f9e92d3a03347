"""What optional packages bring, and one clear line when they are missing."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from knowledge_worker.errors import ConfigurationError


def require(extra: str, *packages: str, model: str) -> None:
    """Check that ``packages`` are installed, without importing them.

    Raises:
        ConfigurationError: one is not; the message names the extra that brings it.
    """
    missing = [package for package in packages if find_spec(package) is None]
    if missing:
        raise ConfigurationError(
            f'Model "{model}" needs packages that are not installed ({", ".join(missing)}): '
            f'pip install "knowledge-worker[{extra}]".'
        )


def package_file(package: str, *parts: str, model: str, extra: str) -> Path:
    """A file inside an installed package, which is not imported for it.

    Raises:
        ConfigurationError: it is not there.
    """
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder, *parts)
        if path.is_file():
            return path
    raise ConfigurationError(
        f'Model "{model}" does not find {"/".join((package, *parts))}: '
        f'pip install --force-reinstall "knowledge-worker[{extra}]".'
    )


def keep_onnxruntime_quiet() -> None:
    """Switch onnxruntime's telemetry off, before its first import; what an operator set stays.

    From 1.29 on, importing it on Linux writes a device id below the home directory and reports to its maker
    (microsoft/onnxruntime, pull request 27379); only this variable, set in time, prevents all of that.
    """
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
