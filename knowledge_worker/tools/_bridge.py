"""From the event loop of an agent framework to our blocking core."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

import anyio.to_thread

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run ``function`` in a thread, with this task's context variables, and wait for it.

    A cancelled task stops waiting at once; the call ends by its own time limits and its answer is dropped.
    """
    return await anyio.to_thread.run_sync(partial(function, *args, **kwargs), abandon_on_cancel=True)
