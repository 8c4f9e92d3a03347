from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from knowledge_worker.embedding import deadline
from knowledge_worker.embedding.per_process import PerProcess


def test_threads_that_ask_at_once_get_one_value() -> None:
    made: list[object] = []

    def make() -> object:
        made.append(object())
        return made[-1]

    value = PerProcess(make)
    gate = threading.Barrier(8)

    def ask(_: int) -> object:
        gate.wait()
        return value.get()

    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(ask, range(8)))) == 1
    assert len(made) == 1


def test_a_failure_is_not_kept() -> None:
    answers = iter([None, "value"])

    def make() -> str:
        answer = next(answers)
        if answer is None:
            raise ValueError
        return answer

    value = PerProcess(make)
    with pytest.raises(ValueError):
        value.get()
    assert value.get() == "value"


def test_what_was_taken_is_made_again() -> None:
    value = PerProcess(object)
    first = value.get()
    assert value.take() is first
    assert value.peek() is None
    assert value.get() is not first


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_makes_its_own_even_if_the_parent_was_making_one() -> None:
    value = PerProcess(os.getpid)
    assert value.get() == os.getpid()
    held = PerProcess(os.getpid)
    with held._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if value.get() == held.get() == os.getpid() else 1)
        _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


async def _answer() -> str:
    return "answer"


def test_a_call_answers_what_its_coroutine_does() -> None:
    assert deadline.call(_answer, timeout_s=5) == "answer"


def test_a_call_raises_what_its_coroutine_does() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        deadline.call(fail, timeout_s=5)
