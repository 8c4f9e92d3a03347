"""Label values that come from outside are kept to a number that a time series database bears."""

from __future__ import annotations

import threading
from typing import Final

OTHERS: Final = "_others"
"""Stands for every name beyond the bound; no collection can be called so."""


class BoundedNames:
    """The first names that come keep their own label value, later ones share :data:`OTHERS`; any thread may ask.

    Args:
        most: how many keep their own.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._names: set[str] = set()
        self._mutex = threading.Lock()

    def label(self, name: str) -> str:
        """What stands for ``name``."""
        with self._mutex:
            if name not in self._names and len(self._names) >= self._most:
                return OTHERS
            self._names.add(name)
            return name
