"""Reading in a thread of its own: what hangs there holds up nobody who waits for it."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable, Generator
from typing import Final, TypeVar

import structlog

from knowledge_worker.errors import PassCancelledError, SourceError

log = structlog.get_logger()
T = TypeVar("T")

LOOKS_S: Final = 0.2
"""How often the waiting side looks whether it is to stop."""
CLOSING_S: Final = 5.0
"""So long a source has to close its files and connections before it is left behind."""

_left_behind: dict[str, threading.Thread] = {}
"""By name: reads that did not come back. A thread cannot be ended from outside, so there is one at most of each."""


def read_ahead(
    produced: Generator[T], *, name: str, stop: threading.Event, cancelled: Callable[[], bool]
) -> Generator[T]:
    """The items of ``produced``, which runs in a thread of its own and is one item ahead.

    Closing waits a moment until ``produced`` is closed, then leaves it to itself.

    Args:
        name: whose read this is; while one of the same name hangs no other one is begun.
        stop: set when nobody wants more; ``produced`` asks it.
        cancelled: asked while there is nothing to yield.

    Raises:
        SourceError: the last read of this name still hangs.
        PassCancelledError: ``cancelled()`` became true.
        BaseException: whatever ``produced`` raises.
    """
    earlier = _left_behind.get(name)
    if earlier is not None and earlier.is_alive():
        raise SourceError(
            "An earlier read still hangs in this worker: end what it waits for, or restart the worker; "
            "a source needs time limits of its own."
        )
    _left_behind.pop(name, None)
    items: queue.Queue[T] = queue.Queue(1)
    ended: list[BaseException | None] = []

    def produce() -> None:
        try:
            for item in produced:
                while not stop.is_set():
                    try:
                        items.put(item, timeout=LOOKS_S)
                        break
                    except queue.Full:
                        continue
                if stop.is_set():
                    break
            produced.close()
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            ended.append(error)
        else:
            ended.append(None)

    thread = threading.Thread(
        target=contextvars.copy_context().run, args=(produce,), name=f"reading-{name}", daemon=True
    )
    thread.start()
    try:
        while True:
            try:
                yield items.get(timeout=0 if ended else LOOKS_S)
            except queue.Empty:
                if ended and items.empty():
                    break
                if cancelled():
                    raise PassCancelledError("The pass was asked to stop.") from None
    finally:
        stop.set()
        thread.join(CLOSING_S)
        if thread.is_alive():
            _left_behind[name] = thread
            log.error("source_left_behind", collection=name)
    if ended[0] is not None:
        raise ended[0]
