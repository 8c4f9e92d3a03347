"""Specification rule 13: functions as sources, in one colour or the other."""

from __future__ import annotations

import asyncio
import functools
import subprocess
import sys
import textwrap
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from knowledge_worker.errors import ConfigurationError, PassCancelledError, SourceError
from knowledge_worker.ports import KnowledgeSource, SourceContext
from knowledge_worker.sources.custom import CustomSource, define_knowledge_source
from knowledge_worker.sources.reading import ReadContext


def item(number: int) -> dict[str, object]:
    return {"id": f"d{number}", "content": "text"}


def make_context(stop: threading.Event | None = None) -> ReadContext:
    return ReadContext(kind="test", cancelled=stop.is_set if stop else lambda: False)


def ids(source: CustomSource) -> list[str]:
    return [one["id"] for one in source.documents(make_context())]  # type: ignore[index]


def test_every_shape_of_function_is_a_source() -> None:
    @define_knowledge_source
    def bare() -> Iterator[object]:
        yield item(1)

    @define_knowledge_source(kind="faq", trusted=False)
    def with_options(context: SourceContext) -> Iterator[object]:
        context.raise_if_cancelled()
        yield item(2)

    @define_knowledge_source(kind="async")
    async def asynchronous() -> AsyncIterator[object]:
        await asyncio.sleep(0)
        yield item(3)

    @define_knowledge_source(kind="async")
    async def asynchronous_with_context(context: SourceContext) -> AsyncIterator[object]:
        assert not context.cancelled
        yield item(4)

    async def answers_a_list() -> list[object]:
        return [item(6)]

    async def answers_a_generator() -> AsyncIterator[object]:
        return asynchronous.function()

    listed = define_knowledge_source(documents=lambda: [item(5)])
    sources = [bare, with_options, asynchronous, asynchronous_with_context, listed]
    sources += [define_knowledge_source(answers_a_list), define_knowledge_source(answers_a_generator)]

    assert [ids(source) for source in sources] == [["d1"], ["d2"], ["d3"], ["d4"], ["d5"], ["d6"], ["d3"]]
    assert all(isinstance(source, KnowledgeSource) for source in sources)
    assert [(source.kind, source.trusted) for source in sources[:2]] == [("custom", True), ("faq", False)]


def test_the_context_goes_where_the_function_wants_it() -> None:
    def keyword(*, context: SourceContext) -> list[object]:
        return [context]

    def optional(context: SourceContext | None = None) -> list[object]:
        return [context]

    def unrelated(limit: int = 500) -> list[object]:
        return [limit]

    def bound(engine: str, context: SourceContext) -> list[object]:
        return [engine, context]

    class Reader:
        def documents(self, context: SourceContext) -> list[object]:
            return [context]

        def __call__(self) -> list[object]:
            return ["called"]

    context = make_context()

    def answer(function: Any) -> list[object]:
        return list(define_knowledge_source(function).documents(context))

    assert answer(keyword) == [context]
    assert answer(optional) == [context]
    assert answer(unrelated) == [500]
    assert answer(functools.partial(bound, "engine")) == ["engine", context]
    assert answer(Reader().documents) == [context]
    assert answer(Reader()) == ["called"]


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"kind": ""}, 'kind="faq"'),
        ({"kind": 3}, 'kind="faq"'),
        ({"kind": "x" * 65}, 'kind="faq"'),
        ({"kind": "a\nb"}, 'kind="faq"'),
        ({"trusted": "yes"}, "True or False"),
        ({"check": "yes"}, "function without arguments"),
        ({"check": lambda context: None}, "function without arguments"),
        ({"documents": "faq"}, "@define_knowledge_source"),
        ({"documents": [item(1)]}, "@define_knowledge_source"),
        ({"documents": (item(n) for n in range(2))}, "without calling it"),
        ({"documents": lambda engine, context: []}, "functools.partial"),
    ],
)
def test_bad_options_are_refused_with_what_to_write_instead(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        define_knowledge_source(**options)

    assert hint in refusal.value.message


@pytest.mark.parametrize("answer", [None, "text", {"id": "a", "content": "b"}, 3])
def test_a_function_that_yields_nothing_readable_is_a_configuration_error(answer: object) -> None:
    async def asynchronous() -> object:
        return answer

    for function in (lambda: answer, asynchronous):
        with pytest.raises(ConfigurationError, match=type(answer).__name__):
            ids(define_knowledge_source(function))


@pytest.mark.parametrize("error", [ConfigurationError("never"), ValueError("now"), SourceError("ours")])
def test_what_a_function_raises_passes_through_after_its_items(error: Exception) -> None:
    def plain() -> Iterator[object]:
        yield item(1)
        raise error

    async def asynchronous() -> AsyncIterator[object]:
        yield item(1)
        raise error

    for function in (plain, asynchronous):
        documents = define_knowledge_source(function).documents(make_context())
        assert next(documents) == item(1)
        with pytest.raises(type(error)) as raised:
            next(documents)
        assert raised.value is error


def test_checks_run_in_either_colour_and_pass_their_errors_through() -> None:
    async def failing() -> None:
        await asyncio.sleep(0)
        raise ConfigurationError("the table is missing")

    async def from_a_running_loop() -> None:
        define_knowledge_source(list, check=failing).check()

    with pytest.raises(ConfigurationError, match="the table is missing"):
        define_knowledge_source(list, check=failing).check()
    with pytest.raises(ConfigurationError, match="the table is missing"):
        asyncio.run(from_a_running_loop())
    assert define_knowledge_source(list, check=lambda: None).check() is None
    assert define_knowledge_source(list).check() is None


def test_an_async_generator_yields_all_items_in_one_task() -> None:
    tasks = set()

    async def many() -> AsyncIterator[object]:
        async with asyncio.timeout(60):
            for number in range(100):
                if number % 7 == 0:
                    await asyncio.sleep(0)
                tasks.add(asyncio.current_task())
                yield item(number)

    assert ids(define_knowledge_source(many)) == [f"d{number}" for number in range(100)]
    assert len(tasks) == 1


def test_an_async_generator_is_not_read_far_ahead() -> None:
    produced: list[int] = []

    async def many() -> AsyncIterator[object]:
        for number in range(1000):
            produced.append(number)
            yield item(number)

    documents = define_knowledge_source(many).documents(make_context())
    next(documents)
    ahead = len(produced)
    documents.close()

    assert ahead <= 64


def test_an_async_generator_is_closed_when_the_reader_stops_early() -> None:
    closed = []

    async def many() -> AsyncIterator[object]:
        try:
            while True:
                yield item(1)
        finally:
            await asyncio.sleep(0)
            closed.append(True)

    documents = define_knowledge_source(many).documents(make_context())
    next(documents)
    documents.close()

    assert closed == [True]


def test_a_source_that_ignores_its_cancellation_is_still_left() -> None:
    async def stubborn() -> AsyncIterator[object]:
        while True:
            try:
                yield item(1)
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                continue

    documents = define_knowledge_source(stubborn).documents(make_context())
    next(documents)
    documents.close()

    with pytest.raises(StopIteration):
        next(documents)


def test_a_cancelled_pass_interrupts_an_async_source_that_waits() -> None:
    stop = threading.Event()
    closed = []

    async def waits() -> AsyncIterator[object]:
        try:
            yield item(1)
            stop.set()
            await asyncio.sleep(3600)
            yield item(2)
        finally:
            closed.append(True)

    documents = define_knowledge_source(waits).documents(make_context(stop))

    with pytest.raises(PassCancelledError):
        list(documents)
    assert closed == [True]


def test_an_async_source_that_cancels_itself_is_a_source_error() -> None:
    async def cancels() -> AsyncIterator[object]:
        yield item(1)
        raise asyncio.CancelledError

    with pytest.raises(SourceError, match="cancelled"):
        ids(define_knowledge_source(cancels))


def test_an_async_source_can_be_read_where_an_event_loop_runs() -> None:
    @define_knowledge_source
    async def source() -> AsyncIterator[object]:
        for number in range(40):
            await asyncio.sleep(0)
            yield item(number)

    async def main() -> list[str]:
        return ids(source)

    before = threading.active_count()
    assert len(asyncio.run(main())) == 40
    assert threading.active_count() == before


def test_an_async_read_begun_elsewhere_can_be_ended_where_an_event_loop_runs() -> None:
    closed = []

    async def many() -> AsyncIterator[object]:
        try:
            while True:
                yield item(1)
        finally:
            await asyncio.sleep(0)
            closed.append(True)

    documents = define_knowledge_source(many).documents(make_context())
    next(documents)

    async def main() -> None:
        documents.close()

    asyncio.run(main())
    assert closed == [True]


def test_fingerprints_are_the_same_in_a_worker_and_in_the_script_itself(tmp_path: Path) -> None:
    (tmp_path / "declared_app.py").write_text(
        textwrap.dedent(
            """
            from knowledge_worker.sources.custom import define_knowledge_source

            @define_knowledge_source(kind="faq")
            def faq():
                yield from ()

            @define_knowledge_source(kind="faq")
            def other():
                yield from ()

            if __name__ == "__main__":
                print(faq.fingerprint, other.fingerprint)
            """
        )
    )

    def output(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    as_script = output("declared_app.py")
    imported = output("-c", "import declared_app as d; print(d.faq.fingerprint, d.other.fingerprint)")

    assert as_script == imported == output("-m", "declared_app")
    assert "declared_app:faq trusted" in as_script
    assert "declared_app:other trusted" in as_script
