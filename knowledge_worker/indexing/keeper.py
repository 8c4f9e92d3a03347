"""Keeps a lease and its claims alive from a timer, and says when the work must stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

import structlog

from knowledge_worker.errors import KnowledgeError, LeaseLostError, PassCancelledError, PassStuckError

log = structlog.get_logger()


class Keeper:
    """Renews every third of a lifetime while the work makes progress.

    Args:
        renew: prolongs everything; False when it is lost for good. May raise when a server is away.
        lifetime_ms: how long one renewal lasts.
        progress_timeout_ms: without :meth:`progress` for so long the work must stop, and nothing is renewed any more:
            a hanging source or provider does not keep the collection for ever.
        stop: set when this process was asked to stop.
    """

    def __init__(
        self, renew: Callable[[], bool], *, lifetime_ms: int, progress_timeout_ms: int, stop: threading.Event
    ) -> None:
        self._renew = renew
        self._lifetime_s = lifetime_ms / 1000
        self._progress_timeout_s = progress_timeout_ms / 1000
        self._stop = stop
        self._lost = threading.Event()
        self._stuck = threading.Event()
        self._done = threading.Event()
        self._renewed_at = self._progress_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="lease-keeper", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    @property
    def cancelled(self) -> bool:
        """Whether the work should stop at the next step, for whatever reason."""
        return self._stop.is_set() or self._lost.is_set() or self._stuck.is_set()

    def progress(self) -> None:
        """Something moved."""
        self._progress_at = time.monotonic()

    def check(self) -> None:
        """Stop the work if it must stop.

        Raises:
            LeaseLostError: somebody else owns the collection, or nothing could be renewed for a lifetime.
            PassStuckError: nothing moved for too long.
            PassCancelledError: this process was asked to stop.
        """
        if self._lost.is_set():
            raise LeaseLostError("The lease could not be renewed.")
        if self._stuck.is_set():
            raise PassStuckError(
                f"Nothing moved for {self._progress_timeout_s:g} s: a source or the provider hangs. "
                "KNOWLEDGE_PROGRESS_TIMEOUT_MS says how long that may be."
            )
        if self._stop.is_set():
            raise PassCancelledError("The worker was asked to stop.")

    def wait(self, seconds: float) -> None:
        """Sleep, but not beyond a stop."""
        self._stop.wait(seconds)

    def _run(self) -> None:
        while not self._done.wait(self._lifetime_s / 3):
            now = time.monotonic()
            if now - self._progress_at > self._progress_timeout_s:
                log.error("pass_stuck", idle_s=round(now - self._progress_at))
                self._stuck.set()
                return
            try:
                if not self._renew():
                    self._lost.set()
                    return
                self._renewed_at = time.monotonic()
            except KnowledgeError as error:
                log.warning("lease_renewal_failed", error=error.message)
                if time.monotonic() - self._renewed_at > self._lifetime_s:
                    self._lost.set()
                    return
