"""Specification rules 14 to 18: one stream of checked documents, and what it says afterwards."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import pytest
import structlog.testing

from knowledge_worker.domain.document import CheckedDocument, DocumentInput
from knowledge_worker.errors import ConfigurationError, LeaseLostError, PassCancelledError, SourceError
from knowledge_worker.ports import SourceContext
from knowledge_worker.sources.custom import CustomSource, define_knowledge_source
from knowledge_worker.sources.reading import SourcesRead, read_sources


def made(function: Callable[..., Any], kind: str = "test") -> CustomSource:
    return define_knowledge_source(function, kind=kind)


def listed(*items: object) -> CustomSource:
    return made(lambda: items)


def item(identifier: object, content: object = "text", **more: object) -> dict[str, object]:
    return {"id": identifier, "content": content, **more}


def pairs(read: SourcesRead) -> list[tuple[int, str]]:
    return [(index, document.id) for index, document in read]


def test_sources_are_read_in_order_of_declaration_and_documents_are_checked() -> None:
    read = read_sources([listed(item("a", "x\0y"), DocumentInput(id="b", content="")), listed(item("a"))])

    documents = list(read)

    assert [(index, document.id) for index, document in documents] == [(0, "a"), (0, "b"), (1, "a")]
    assert isinstance(documents[0][1], CheckedDocument)
    assert documents[0][1].content == "x\ufffdy"
    assert (read.read, read.skipped, read.reasons, read.reports) == (3, 0, (), ())
    assert [result.read for result in read.results] == [2, 1]


class Hostile(Mapping[str, object]):
    def __getitem__(self, key: str) -> object:
        return "h" if key == "id" else 1 // 0

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class Loop(dict[str, object]):
    def __init__(self) -> None:
        super().__init__()
        self["self"] = self


@pytest.mark.parametrize(
    ("bad", "shown"),
    [
        (item(""), "(empty id)"),
        (item("x" * 256), "x" * 200),
        (item("a\0b"), "a\\x00b"),
        (item("\udc80"), "\\udc80"),
        (item(7), "<int>"),
        ({"content": "secret"}, "<NoneType>"),
        (item("a", None), "a:"),
        (item("a", b"secret"), "a:"),
        (item("a", "secret" * 200_000), "a:"),
        (item("a", metadata=["secret"]), "a:"),
        (item("a", metadata={"secret": object()}), "a:"),
        (item("a", metadata={"n": math.nan}), "a:"),
        (item("a", metadata={1: "secret"}), "a:"),
        (item("a", metadata={"n": 10**5000}), "a:"),
        (item("a", metadata=Loop()), "a:"),
        (item("a", title=3), "a:"),
        ("secret", "(str)"),
        (None, "(NoneType)"),
        (Hostile(), "h:"),
    ],
)
def test_an_invalid_item_is_reported_by_its_id_and_the_rest_is_read(bad: object, shown: str) -> None:
    read = read_sources([listed(item("first"), bad, item("last"))])

    assert pairs(read) == [(0, "first"), (0, "last")]
    assert (read.read, read.skipped) == (3, 1)
    assert read.reports[0].startswith(shown)
    assert "secret" not in read.reports[0]
    assert not read.reasons


def test_an_id_that_comes_again_is_reported_by_whoever_finds_out() -> None:
    read = read_sources([listed(item("a", "one")), listed(item("b"), item("b", "two"))])
    ids = [(index, document.id) for index, document in read]
    read.report_repeated(1, "b")

    assert ids == [(0, "a"), (1, "b"), (1, "b")]
    assert (read.read, read.skipped) == (3, 1)
    assert [result.skipped for result in read.results] == [0, 1]
    assert read.reports[0].startswith("b: ")


def test_an_invalid_document_does_not_hide_a_later_valid_one() -> None:
    read = read_sources([listed(item("a", 1), item("a", "two"))])

    assert [document.content for _, document in read] == ["two"]


def test_incomplete_is_known_for_each_source() -> None:
    def second(context: SourceContext) -> Iterator[object]:
        yield item("b")
        context.incomplete("page 3 answered 503")
        context.incomplete("page 3 answered 503")
        context.incomplete("another\nsecond line")

    read = read_sources([listed(item("a")), made(second), listed(item("c"))])

    assert pairs(read) == [(0, "a"), (1, "b"), (2, "c")]
    assert [result.incomplete for result in read.results] == [False, True, False]
    assert read.reasons == ("page 3 answered 503", "another")
    assert read.skipped == 0


def test_reports_and_reasons_are_bounded_and_logged_up_to_the_bound() -> None:
    def noisy(context: SourceContext) -> Iterator[object]:
        for number in range(150):
            context.on_error(ValueError(f"row {number}\n[parameters: secret]"))
            context.incomplete(f"page {number}")
        yield item("a")

    with structlog.testing.capture_logs() as logs:
        read = read_sources([made(noisy, kind="noisy")], collection="faq")
        assert pairs(read) == [(0, "a")]
        read.finish()

    assert read.skipped == 150
    assert len(read.reports) == 100
    assert (read.reports[0], read.reports[-1]) == ("ValueError: row 0", "ValueError: row 99")
    assert len(read.reasons) == 20
    reports = [line for line in logs if line["event"] == "source_report"]
    assert len(reports) == 100
    assert {(line["collection"], line["source"]) for line in logs} == {("faq", "noisy")}
    assert [line["count"] for line in logs if line["event"] == "source_reports_omitted"] == [50]


def test_an_error_of_a_source_becomes_a_source_error_with_one_line() -> None:
    def plain() -> Iterator[object]:
        yield item("a")
        raise ConnectionError("no answer from https://me:pw@host.example/x?key=k\n[SQL: secret]")

    async def asynchronous() -> AsyncIterator[object]:
        yield item("a")
        raise ConnectionError("no answer from https://me:pw@host.example/x?key=k\n[SQL: secret]")

    def at_once() -> None:
        raise ConnectionError("no answer from https://me:pw@host.example/x?key=k\n[SQL: secret]")

    for function in (plain, asynchronous, at_once):
        with pytest.raises(SourceError) as raised:
            pairs(read_sources([made(function, kind="api")]))
        assert raised.value.message == "source api: ConnectionError: no answer from https://host.example/x?…"
        assert isinstance(raised.value.__cause__, ConnectionError)


def test_a_source_error_is_not_wrapped_twice() -> None:
    def failing() -> None:
        raise SourceError("the table is locked")

    with pytest.raises(SourceError, match=r"^source faq: the table is locked$"):
        pairs(read_sources([made(failing, kind="faq")]))


@pytest.mark.parametrize(
    "error",
    [ConfigurationError("wrong"), PassCancelledError("stop"), LeaseLostError("lost"), KeyboardInterrupt()],
    ids=lambda error: type(error).__name__,
)
def test_errors_with_a_meaning_of_their_own_pass(error: BaseException) -> None:
    def failing() -> Iterator[object]:
        yield item("a")
        raise error

    with pytest.raises(type(error)) as raised:
        pairs(read_sources([made(failing)]))
    assert raised.value is error


def test_an_error_of_the_consumer_is_not_blamed_on_the_source() -> None:
    closed = []

    def source() -> Iterator[object]:
        try:
            yield item("a")
            yield item("b")
        finally:
            closed.append(True)

    stream = iter(read_sources([made(source)]))
    next(stream)
    with pytest.raises(LookupError):
        stream.throw(LookupError("mine"))  # type: ignore[attr-defined]
    assert closed == [True]


def test_a_source_that_fails_to_clean_up_hides_no_other_error() -> None:
    def source() -> Iterator[object]:
        try:
            yield item("a")
            yield item("b")
        finally:
            raise RuntimeError("clean-up")

    stream = iter(read_sources([made(source)]))
    next(stream)
    with structlog.testing.capture_logs() as logs:
        stream.close()  # type: ignore[attr-defined]
    assert [line["event"] for line in logs] == ["source_close_failed"]


def test_a_cancelled_read_stops_before_the_next_document_and_the_next_source() -> None:
    stop = [False]
    begun = []

    def second() -> Iterator[object]:
        begun.append(True)
        yield item("c")

    read = read_sources([listed(item("a"), item("b")), made(second)], cancelled=lambda: stop[0])
    stream = iter(read)
    next(stream)
    stop[0] = True

    with pytest.raises(PassCancelledError):
        next(stream)
    assert begun == []


def test_a_read_is_iterated_once() -> None:
    read = read_sources([listed(item("a"))])
    pairs(read)

    with pytest.raises(RuntimeError):
        pairs(read)


def test_documents_are_streamed() -> None:
    produced = []

    def many() -> Iterator[object]:
        for number in range(1000):
            produced.append(number)
            yield item(f"d{number}")

    stream = iter(read_sources([made(many)]))
    next(stream)

    assert produced == [0]
    stream.close()  # type: ignore[attr-defined]
