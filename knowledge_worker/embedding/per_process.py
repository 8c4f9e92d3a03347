"""Values that must not cross a fork: clients, event loops, loaded models."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """A value made on first use, once in each process, whichever thread asks first.

    Args:
        make: makes it; what it raises is raised by :meth:`get`, and the next call tries again.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: tuple[int, T] | None = None
        self._lock = threading.Lock()
        _all.add(self)

    def get(self) -> T:
        """The value of this process."""
        value = self.peek()
        if value is None:
            with self._lock:
                value = self.peek()
                if value is None:
                    value = self._make()
                    self._made = (os.getpid(), value)
        return value

    def peek(self) -> T | None:
        """The value of this process if it was made."""
        made = self._made
        return made[1] if made is not None and made[0] == os.getpid() else None

    def take(self) -> T | None:
        """Give the value up, to close it; the next :meth:`get` makes another."""
        with self._lock:
            value, self._made = self.peek(), None
        return value

    def _after_fork(self) -> None:
        # Another thread of the parent may have held it; nobody in the child would ever let it go.
        self._lock = threading.Lock()


_all: weakref.WeakSet[PerProcess[Any]] = weakref.WeakSet()


def _renew_locks() -> None:
    for value in list(_all):
        value._after_fork()  # pyright: ignore[reportPrivateUsage]


os.register_at_fork(after_in_child=_renew_locks)
