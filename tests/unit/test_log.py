"""One set of processors for structlog and for the standard library, and no secrets in either."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from knowledge_worker.log import LogFormat, LogLevel, configure_logging


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def configured(log_format: LogFormat = "json", level: LogLevel = "info") -> io.StringIO:
    stream = io.StringIO()
    configure_logging(log_format=log_format, level=level, stream=stream)
    return stream


def test_json_lines_carry_event_fields_level_and_context() -> None:
    stream = configured()
    with structlog.contextvars.bound_contextvars(task_id="t1"):
        structlog.get_logger().info("pass_finished", changed=12)
    line = json.loads(stream.getvalue())
    assert line["event"] == "pass_finished"
    assert (line["changed"], line["level"], line["task_id"]) == (12, "info", "t1")
    assert line["timestamp"].endswith("Z")


def test_libraries_go_the_same_way() -> None:
    stream = configured()
    with structlog.contextvars.bound_contextvars(task_id="t1"):
        logging.getLogger("celery.worker").warning("lost %s", "connection")
    line = json.loads(stream.getvalue())
    assert (line["event"], line["logger"], line["task_id"]) == ("lost connection", "celery.worker", "t1")


def test_a_password_in_an_address_is_hidden_in_messages_and_tracebacks() -> None:
    stream = configured()
    log = structlog.get_logger()
    log.warning("lost", server="redis://user:secret-word@cache:6379/1")
    try:
        raise OSError("postgresql://user:secret-word@db/x refused")
    except OSError:
        log.exception("failed")
    assert "secret-word" not in stream.getvalue()
    assert "***@cache:6379/1" in stream.getvalue()


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_password_in_an_address_is_hidden_in_lists_too(log_format: LogFormat) -> None:
    stream = configured(log_format)
    structlog.get_logger().error(
        "wrong", problems=["see https://user:secret-word@host/x"], by={"a": ("ftp://me:secret-word@h",)}
    )
    logging.getLogger("library").warning("gave up %s", ["amqp://user:secret-word@host"])
    assert stream.getvalue().count("***@h") == 3
    assert "secret-word" not in stream.getvalue()


HOSTILE = "a\n12:00:00 [info] all_is_well\r\x1b[2J\x9b31m\u2028\u202egnp.exe"


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_text_from_outside_neither_begins_a_line_nor_acts_on_a_terminal(log_format: LogFormat) -> None:
    stream = configured(log_format)
    with structlog.contextvars.bound_contextvars(collection=HOSTILE):
        structlog.get_logger().warning(
            "source_report", report=HOSTILE, unspaced=HOSTILE.replace(" ", ""), ids=[HOSTILE]
        )
    logging.getLogger("library").warning("refused %s", HOSTILE)
    assert len(stream.getvalue().splitlines()) == 2
    assert stream.getvalue().replace("\n", "").isprintable()
    assert stream.getvalue().count("all_is_well") == 5


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_an_exceptions_text_does_not_act_on_a_terminal(log_format: LogFormat) -> None:
    stream = configured(log_format)
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        structlog.get_logger().exception("failed")
    assert "Traceback" in stream.getvalue()
    assert stream.getvalue().replace("\n", "").isprintable()
    assert len(stream.getvalue().splitlines()) == 1 or log_format == "console"


@pytest.mark.parametrize("log_format", ["console", "json"])
def test_a_traceback_never_shows_local_variables(log_format: LogFormat) -> None:
    stream = configured(log_format)
    content = "text of a document"
    try:
        len(content) / 0
    except ZeroDivisionError:
        structlog.get_logger().exception("failed")
    assert "ZeroDivisionError" in stream.getvalue()
    assert "text of a document'" not in stream.getvalue().replace('content = "text of a document"', "")


def test_clients_that_log_whole_requests_stay_quiet_at_debug() -> None:
    stream = configured(level="debug")
    logging.getLogger("openai._base_client").debug("Request options: input=...")
    logging.getLogger("httpx").info("HTTP Request")
    assert stream.getvalue() == ""


def test_the_level_is_kept() -> None:
    stream = configured("console", "warning")
    structlog.get_logger().info("quiet")
    structlog.get_logger().warning("heard")
    assert "quiet" not in stream.getvalue()
    assert "heard" in stream.getvalue()


def test_every_task_line_of_celery_is_for_debugging() -> None:
    quiet = configured()
    logging.getLogger("celery.app.trace").info("Task knowledge.tick succeeded")
    assert quiet.getvalue() == ""
    loud = configured(level="debug")
    logging.getLogger("celery.app.trace").info("Task knowledge.tick succeeded")
    assert "succeeded" in loud.getvalue()
