"""A queue that remembers what it was asked, for tests and for a :class:`Knowledge` without workers."""

from __future__ import annotations

import threading


class InlineQueue:
    """:class:`~knowledge_worker.ports.WorkQueue` without a broker.

    Attributes:
        synced: the collections of the sync nudges, oldest first.
        embedded: collection and number of helpers of the embed nudges, oldest first.
        away: when True nothing is taken and every nudge answers False, as without a broker.
    """

    def __init__(self) -> None:
        self.synced: list[str] = []
        self.embedded: list[tuple[str, int]] = []
        self.away = False
        self._mutex = threading.Lock()

    def nudge_sync(self, collection: str) -> bool:
        """Remember the nudge."""
        if self.away:
            return False
        with self._mutex:
            self.synced.append(collection)
        return True

    def nudge_embed(self, collection: str, *, helpers: int) -> bool:
        """Remember the nudge."""
        if self.away:
            return False
        with self._mutex:
            self.embedded.append((collection, helpers))
        return True

    def take_synced(self) -> list[str]:
        """The sync nudges since the last call, oldest first."""
        with self._mutex:
            taken, self.synced = self.synced, []
        return taken

    def close(self) -> None:
        """Nothing is open."""
