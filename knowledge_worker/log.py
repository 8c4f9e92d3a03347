"""Logging: structlog and the standard library's loggers through one set of processors, to standard error."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from typing import Any, Literal, TextIO, cast

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LogFormat = Literal["auto", "console", "json"]
LogLevel = Literal["debug", "info", "warning", "error"]

# These log whole requests, texts to embed and keys included, when asked for more than warnings.
_NEVER_BELOW_WARNING = ("openai", "httpx", "httpx2", "httpcore", "urllib3", "asyncio")

# What these say at level info, our own lines say better: every task twice, every start and stop, every look at the
# database's revision. At level debug they are shown.
_LEAST = {
    "celery.app.trace": logging.WARNING,
    "celery.apps.worker": logging.WARNING,
    "celery.beat": logging.WARNING,
    "celery.worker.strategy": logging.WARNING,
    "alembic": logging.WARNING,
    "uvicorn.error": logging.WARNING,
    "flower.inspector": logging.ERROR,
}

_CREDENTIALS = re.compile(r"(?<=://)[^/\s@'\"]*@")

_ACTING = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""What begins a line, moves the cursor or turns the direction of text."""


def configure_logging(
    *, log_format: LogFormat = "auto", level: LogLevel = "info", stream: TextIO | None = None
) -> None:
    """Set up every logger of this process; calling it again replaces what was set up.

    Args:
        log_format: ``auto`` writes for people on a terminal and JSON lines elsewhere.
        level: the least that is written.
        stream: standard error if not given.
    """
    out: TextIO = stream or sys.stderr
    for_people = log_format == "console" or (log_format == "auto" and out.isatty())
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="%H:%M:%S" if for_people else "iso", utc=not for_people),
        hide_credentials,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(out)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *(_console(colors=out.isatty()) if for_people else _json()),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    for name in _NEVER_BELOW_WARNING:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name, least in _LEAST.items():
        logging.getLogger(name).setLevel(logging.NOTSET if level == "debug" else least)


def hide_credentials(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Take ``user:password@`` out of every URL; libraries put addresses into their messages."""
    for key, value in event.items():
        event[key] = _without_credentials(value)
    return event


def escape_acting(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Show what acts on a terminal as its escape, so that no text from outside can; JSON does that by itself.

    The lines of a traceback stay lines.
    """
    for key, value in event.items():
        if isinstance(value, str):
            event[key] = "\n".join(map(_escaped, value.split("\n"))) if key == "exception" else _escaped(value)
    return event


def _without_credentials(value: Any) -> Any:
    match value:
        case str():
            return _CREDENTIALS.sub("***@", value) if "://" in value else value
        case list() | tuple():
            return [_without_credentials(one) for one in cast("Sequence[Any]", value)]
        case dict():
            return {key: _without_credentials(one) for key, one in cast("dict[Any, Any]", value).items()}
        case _:
            return value


def _escaped(text: str) -> str:
    return _ACTING.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _ordered(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """When, how bad and what come first, for people who read JSON lines."""
    first = {key: event.pop(key) for key in ("timestamp", "level", "event") if key in event}
    return {**first, **event}


# Both write tracebacks without the values of local variables, which may be documents.
_TRACEBACKS: list[Processor] = [structlog.processors.format_exc_info, hide_credentials]


def _console(*, colors: bool) -> list[Processor]:
    renderer = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return [*_TRACEBACKS, escape_acting, renderer]


def _json() -> list[Processor]:
    return [*_TRACEBACKS, _ordered, structlog.processors.JSONRenderer()]
