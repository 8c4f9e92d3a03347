"""Calls that end at their deadline whatever the other side does.

A client's own time limits count each read and write, so a server that sends a byte now and then holds a call for
ever, and a name server that does not answer is outside of them. A cancelled coroutine ends at once, wherever it waits.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, TypeVar

from knowledge_worker.embedding.per_process import PerProcess

T = TypeVar("T")

_BACKSTOP_S = 5.0


def _start_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="embedding-calls", daemon=True).start()
    return loop


_loop = PerProcess(_start_loop)


def call(work: Callable[[], Coroutine[Any, Any, T]], *, timeout_s: float) -> T:
    """Run ``work`` on the event loop of this process and wait for it.

    Args:
        work: starts the coroutine, in the loop's thread.
        timeout_s: seconds after which it is cancelled.

    Raises:
        TimeoutError: it did not end in time.
    """

    async def bounded() -> T:
        async with asyncio.timeout(timeout_s):
            return await work()

    future = asyncio.run_coroutine_threadsafe(bounded(), _loop.get())
    try:
        return future.result(timeout_s + _BACKSTOP_S)
    except FutureTimeoutError:
        raise TimeoutError from None
    finally:
        future.cancel()


def start(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    """Run ``work`` on the event loop of this process and do not wait for it: for tidying up, from anywhere."""

    async def done() -> None:
        await work()

    asyncio.run_coroutine_threadsafe(done(), _loop.get())
