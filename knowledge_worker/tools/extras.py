"""The optional packages that an adapter needs, and one clear line when they are missing."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, distribution

from knowledge_worker.errors import ConfigurationError


def require(extra: str, *packages: str) -> None:
    """Check that ``packages`` are installed, without importing them.

    Args:
        extra: of this package, which brings them.
        packages: as an installer names them; a module of the same name may be anybody's.

    Raises:
        ConfigurationError: one is missing; the message names the extra.
    """
    missing = [package for package in packages if not _is_installed(package)]
    if missing:
        raise ConfigurationError(
            f"This needs packages that are not installed ({', '.join(missing)}): "
            f'pip install "knowledge-worker[{extra}]".'
        )


def _is_installed(package: str) -> bool:
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True
