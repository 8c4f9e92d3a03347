"""Whatever ``documents`` answered, as a plain iterator: the core has one colour, sources may have two."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from typing import Any, TypeVar, cast

from knowledge_worker.errors import ConfigurationError, SourceError
from knowledge_worker.ports import SourceContext

_LOOKAHEAD = 64
"""Items an async generator may be ahead: entering an event loop costs more than most items."""
_CANCEL_POLL_S = 0.2

_T = TypeVar("_T")


def iterate(produced: object, *, kind: str, context: SourceContext) -> Iterator[object]:
    """The items of what a source's ``documents`` returned.

    Args:
        produced: an iterable, an async iterable, or an awaitable of either.
        kind: names the source in messages.
        context: asked between items, and while an async source waits, whether to stop.

    Raises:
        ConfigurationError: it is none of these.
        PassCancelledError: the pass was asked to stop; the source's ``finally`` blocks have run.
    """
    if inspect.isawaitable(produced) or isinstance(produced, AsyncIterable):
        return _iterate_async(produced, kind=kind, context=context)
    return iter(_plain(produced, kind))


def run_async(make: Callable[[], Any]) -> object:
    """The result of the coroutine that ``make`` returns, also where this thread already runs an event loop."""
    with ExitStack() as stack:
        call = _caller(stack)
        runner = asyncio.Runner()
        stack.callback(call, runner.close)
        return call(lambda: runner.run(_awaited(make())))


def _plain(produced: object, kind: str) -> Iterable[object]:
    if isinstance(produced, Iterable) and not isinstance(produced, str | bytes | Mapping):
        return cast("Iterable[object]", produced)
    raise ConfigurationError(
        f'source "{kind}": documents returned {type(produced).__name__}; yield the documents one by one, '
        "or return a list of them."
    )


def _iterate_async(produced: Any, *, kind: str, context: SourceContext) -> Iterator[object]:
    with ExitStack() as stack:
        call = _caller(stack)
        runner = asyncio.Runner()
        stack.callback(call, runner.close)
        reading = _AsyncReading(produced, kind=kind, context=context)
        stack.callback(call, lambda: runner.run(reading.close()))
        while batch := call(lambda: runner.run(reading.next_batch())):
            for item in batch:
                context.raise_if_cancelled()
                yield item


def _caller(stack: ExitStack) -> Callable[[Callable[[], Any]], Any]:
    """A function that runs another one where no event loop runs: here, else in a thread of its own."""
    if not _loop_runs():
        return _call
    executor = stack.enter_context(ThreadPoolExecutor(max_workers=1, thread_name_prefix="knowledge-source"))
    return lambda function: executor.submit(function).result()


def _call(function: Callable[[], _T]) -> _T:
    if not _loop_runs():
        return function()
    # A read that was begun elsewhere is ended, perhaps by the garbage collector, where a loop runs.
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="knowledge-source") as executor:
        return executor.submit(function).result()


def _loop_runs() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


async def _awaited(awaitable: Any) -> object:
    return await awaitable


class _AsyncReading:
    """One task that lives as long as the read, so that time-outs and task groups of the source span its yields."""

    def __init__(self, produced: Any, *, kind: str, context: SourceContext) -> None:
        self._produced = produced
        self._kind = kind
        self._context = context
        self._items: list[object] = []
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    async def next_batch(self) -> list[object]:
        """Let the source run until there are items; none means that it ended."""
        if self._task is None:
            self._task = asyncio.create_task(self._pump())
        self._room.set()
        while not self._items and not self._task.done():
            self._arrived.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), _CANCEL_POLL_S)
            self._context.raise_if_cancelled()
        batch, self._items = self._items, []
        if not batch:
            if self._task.cancelled():
                raise SourceError("the generator was cancelled from within")
            self._task.result()
        return batch

    async def close(self) -> None:
        """End the source's task; its ``finally`` blocks run, what they raise is dropped."""
        if self._task is None:
            if inspect.iscoroutine(self._produced):
                self._produced.close()
            return
        self._closing = True
        self._task.cancel()
        await asyncio.wait({self._task})
        if not self._task.cancelled():
            self._task.exception()

    async def _pump(self) -> None:
        try:
            produced = await self._produced if inspect.isawaitable(self._produced) else self._produced
            if isinstance(produced, AsyncIterable):
                await self._pump_async(cast("AsyncIterable[object]", produced))
            else:
                for item in _plain(produced, self._kind):
                    await self._hand_over(item)
        finally:
            self._arrived.set()

    async def _pump_async(self, produced: AsyncIterable[object]) -> None:
        iterator = aiter(produced)
        try:
            async for item in iterator:
                await self._hand_over(item)
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                await close()

    async def _hand_over(self, item: object) -> None:
        if self._closing:
            raise asyncio.CancelledError
        self._items.append(item)
        self._arrived.set()
        if len(self._items) >= _LOOKAHEAD:
            self._room.clear()
            await self._room.wait()
