"""What every implementation of :class:`knowledge_worker.ports.Locks` keeps.

Subclass it, name the class ``Test…`` and give the fixtures ``locks``, ``pass_time_ms`` and ``forget``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from knowledge_worker.ports import Locks, LockState

KEY = "knowledge:handbook"
LONG_MS = 60_000
SHORT_MS = 100


class LocksContract:
    """The suite; ``pass_time_ms(n)`` lets ``n`` milliseconds pass, ``forget()`` loses every key."""

    def test_a_free_key_is_taken(self, locks: Locks) -> None:
        """The first one gets it."""
        assert locks.acquire(KEY, "a", lifetime_ms=LONG_MS) is LockState.OURS

    def test_a_second_token_is_refused(self, locks: Locks) -> None:
        """One holder at a time, and the refused one changes nothing."""
        locks.acquire(KEY, "a", lifetime_ms=LONG_MS)
        assert locks.acquire(KEY, "b", lifetime_ms=LONG_MS) is LockState.TAKEN
        assert locks.acquire(KEY, "a", lifetime_ms=LONG_MS) is LockState.OURS

    def test_acquiring_again_with_the_same_token_is_ours(self, locks: Locks) -> None:
        """A try whose answer was lost may be repeated."""
        locks.acquire(KEY, "a", lifetime_ms=LONG_MS)
        assert locks.acquire(KEY, "a", lifetime_ms=LONG_MS) is LockState.OURS

    def test_keys_are_independent(self, locks: Locks) -> None:
        """A held key says nothing about another one."""
        locks.acquire(KEY, "a", lifetime_ms=LONG_MS)
        assert locks.acquire("knowledge:faq", "b", lifetime_ms=LONG_MS) is LockState.OURS

    def test_an_expired_key_is_free(self, locks: Locks, pass_time_ms: Callable[[int], None]) -> None:
        """A holder that died blocks nobody for longer than its lifetime."""
        locks.acquire(KEY, "a", lifetime_ms=SHORT_MS)
        pass_time_ms(SHORT_MS + 50)
        assert locks.acquire(KEY, "b", lifetime_ms=LONG_MS) is LockState.OURS

    def test_renewing_prolongs(self, locks: Locks, pass_time_ms: Callable[[int], None]) -> None:
        """The new lifetime counts from the renewal."""
        locks.acquire(KEY, "a", lifetime_ms=SHORT_MS)
        assert locks.renew(KEY, "a", lifetime_ms=LONG_MS) is LockState.OURS
        pass_time_ms(SHORT_MS + 50)
        assert locks.acquire(KEY, "b", lifetime_ms=LONG_MS) is LockState.TAKEN

    def test_renewing_never_takes_from_another(self, locks: Locks) -> None:
        """A holder that lost its key learns it."""
        locks.acquire(KEY, "b", lifetime_ms=LONG_MS)
        assert locks.renew(KEY, "a", lifetime_ms=LONG_MS) is LockState.TAKEN
        assert locks.renew(KEY, "b", lifetime_ms=LONG_MS) is LockState.OURS

    def test_renewing_sets_a_vanished_key_again(self, locks: Locks, forget: Callable[[], None]) -> None:
        """A server that forgot everything knows the holder again after one renewal."""
        locks.acquire(KEY, "a", lifetime_ms=LONG_MS)
        forget()
        assert locks.renew(KEY, "a", lifetime_ms=LONG_MS) is LockState.OURS
        assert locks.acquire(KEY, "b", lifetime_ms=LONG_MS) is LockState.TAKEN

    def test_a_released_key_is_free(self, locks: Locks) -> None:
        """The next one need not wait for the lifetime."""
        locks.acquire(KEY, "a", lifetime_ms=LONG_MS)
        locks.release(KEY, "a")
        assert locks.acquire(KEY, "b", lifetime_ms=LONG_MS) is LockState.OURS

    def test_only_the_holder_releases(self, locks: Locks) -> None:
        """A late release of the former holder leaves the next one's key alone."""
        locks.acquire(KEY, "b", lifetime_ms=LONG_MS)
        locks.release(KEY, "a")
        assert locks.acquire(KEY, "c", lifetime_ms=LONG_MS) is LockState.TAKEN

    def test_releasing_a_free_key_does_nothing(self, locks: Locks) -> None:
        """It never raises."""
        locks.release(KEY, "a")
        assert locks.acquire(KEY, "a", lifetime_ms=LONG_MS) is LockState.OURS

    def test_one_of_many_at_once_gets_it(self, locks: Locks) -> None:
        """Threads that try together have one winner."""
        states: list[LockState] = []
        start = threading.Barrier(8)

        def compete(token: str) -> None:
            start.wait()
            states.append(locks.acquire(KEY, token, lifetime_ms=LONG_MS))

        threads = [threading.Thread(target=compete, args=(str(number),)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(state.name for state in states) == ["OURS", *["TAKEN"] * 7]
