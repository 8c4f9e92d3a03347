"""Reading in a thread of its own: in order, ended at once, and nothing that hangs holds up who waits for it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from typing import Any

import pytest

from knowledge_worker.errors import PassCancelledError, SourceError
from knowledge_worker.sources import ahead as module
from knowledge_worker.sources.ahead import read_ahead


def never() -> bool:
    return False


def reading(produced: Generator[Any], *, name: str = "docs", cancelled: Callable[[], bool] = never) -> Generator[Any]:
    return read_ahead(produced, name=name, stop=threading.Event(), cancelled=cancelled)


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_everything_comes_in_order(count: int) -> None:
    assert list(reading(number for number in range(count))) == list(range(count))


def test_what_it_raises_comes_after_what_it_yielded() -> None:
    def failing() -> Generator[int]:
        yield 1
        yield 2
        raise KeyError("three")

    got: list[int] = []
    with pytest.raises(KeyError, match="three"):
        got.extend(reading(failing()))
    assert got == [1, 2]


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()])
def test_even_what_would_end_a_process(error: BaseException) -> None:
    def ending() -> Generator[int]:
        yield 1
        raise error

    with pytest.raises(type(error)):
        list(reading(ending()))


def test_it_is_closed_when_nobody_wants_more() -> None:
    closed = threading.Event()

    def endless() -> Generator[int]:
        number = 0
        try:
            while True:
                yield number
                number += 1
        finally:
            closed.set()

    with closing(reading(endless())) as numbers:
        assert next(numbers) == 0
    assert closed.is_set()
    assert not [thread for thread in threading.enumerate() if thread.name == "reading-docs"]


def test_it_is_no_further_ahead_than_one_item_in_hand_and_one_waiting() -> None:
    made: list[int] = []
    second = threading.Event()

    def noting() -> Generator[int]:
        for number in range(100):
            made.append(number)
            if number == 2:
                second.set()
            yield number

    with closing(reading(noting())) as numbers:
        assert next(numbers) == 0
        assert second.wait(10)
        assert not threading.Event().wait(0.3)
        assert made == [0, 1, 2]


def test_the_context_is_that_of_the_caller() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="nothing")
    token = variable.set("bound")
    try:
        assert list(reading(variable.get() for _ in range(1))) == ["bound"]
    finally:
        variable.reset(token)


@pytest.fixture
def hanging(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Generator[int]]]:
    """A source that yields one item and then waits for the end of the test."""
    monkeypatch.setattr(module, "CLOSING_S", 0.2)
    released = threading.Event()

    def hang() -> Generator[int]:
        yield 1
        released.wait(60)
        yield 2

    yield hang
    released.set()
    for thread in list(module._left_behind.values()):
        thread.join()
    module._left_behind.clear()


def test_who_waits_for_a_hanging_source_can_stop(hanging: Callable[[], Generator[int]]) -> None:
    got: list[int] = []
    with pytest.raises(PassCancelledError):
        got.extend(reading(hanging(), cancelled=lambda: bool(got)))
    assert got == [1]


def test_one_read_at_most_is_left_behind_for_each_name(hanging: Callable[[], Generator[int]]) -> None:
    for _ in range(3):
        with pytest.raises((PassCancelledError, SourceError)):
            list(reading(hanging(), cancelled=lambda: True))
    assert len([thread for thread in threading.enumerate() if thread.name == "reading-docs"]) == 1
    with pytest.raises(SourceError, match="restart the worker"):
        list(reading(number for number in range(3)))
    assert list(reading((number for number in range(3)), name="other")) == [0, 1, 2]


def test_when_what_hung_is_over_it_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSING_S", 0.2)
    released = threading.Event()

    def hang() -> Generator[int]:
        released.wait(60)
        yield 1

    with pytest.raises(PassCancelledError):
        list(reading(hang(), cancelled=lambda: True))
    left = module._left_behind["docs"]
    released.set()
    left.join()
    assert list(reading(number for number in range(3))) == [0, 1, 2]
