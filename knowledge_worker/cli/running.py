"""Run the command line: every way it can end becomes an exit code and at most one line."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Sequence

import click

from knowledge_worker.cli import exit_codes
from knowledge_worker.cli.output import safe_line
from knowledge_worker.errors import KnowledgeError

_LONGEST_MESSAGE = 500
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def run(command: click.Command, argv: Sequence[str] | None = None) -> int:
    """Run ``command``; never raises.

    Args:
        command: the group.
        argv: arguments without the program's name; those of this process if not given.

    Returns:
        The exit code.
    """
    if sys.stderr is None:  # pyright: ignore[reportUnnecessaryComparison] - it was closed: 2>&-
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115 - as long as this process
    if sys.stdout is None:  # pyright: ignore[reportUnnecessaryComparison]
        click.echo("Error: standard output is closed: send it to /dev/null instead.", err=True)
        return exit_codes.FAILED
    printed_to = sys.stdout
    for stream in (sys.stdout, sys.stderr):
        # Documents hold characters that an old terminal's encoding lacks.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        result = command.main(
            args=None if argv is None else list(argv), prog_name="knowledge-worker", standalone_mode=False
        )
        sys.stdout.flush()
    except BrokenPipeError:
        return _reader_left()
    except click.exceptions.Abort:
        return exit_codes.INTERRUPTED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except KeyboardInterrupt:
        return exit_codes.INTERRUPTED
    except KnowledgeError as error:
        return _say(error.message, exit_codes.exit_code(error), error)
    except SystemExit as error:
        if sys.stdout is not printed_to:  # click replaces it when a pipe's reader left, and exits with code 1
            return _reader_left()
        return error.code if isinstance(error.code, int) else exit_codes.OK if error.code is None else exit_codes.FAILED
    except Exception as error:  # noqa: BLE001 - the last resort: one line instead of a traceback
        if isinstance(error, OSError) and error.errno in _DISK_FULL:
            _drop_output()
            return _say(f"output cannot be written: {error.strerror}.", exit_codes.FAILED, error)
        first_line = next(iter(str(error).splitlines()), "")
        said = f"unexpected {type(error).__name__}{': ' if first_line else ''}{first_line}"
        hint = "" if _wants_traceback() else " (--log-level debug shows the traceback)"
        return _say(f"{said[:_LONGEST_MESSAGE]}{hint}", exit_codes.FAILED, error)
    return result if isinstance(result, int) else exit_codes.OK


def stop_on_sigterm() -> None:
    """Let SIGTERM end this process like Ctrl-C, but with exit code 0: it was asked to."""

    def stop(_number: int, _frame: object) -> None:
        raise SystemExit(exit_codes.OK)

    signal.signal(signal.SIGTERM, stop)


def _say(message: str, code: int, error: BaseException) -> int:
    try:
        if _wants_traceback():
            import traceback

            click.echo("".join(traceback.format_exception(error)), err=True)
        click.echo(f"Error: {safe_line(message)}", err=True)
    except OSError:
        pass  # standard error is full or closed as well; the code still tells
    return code


def _wants_traceback() -> bool:
    import logging

    return logging.getLogger().level == logging.DEBUG or os.environ.get("KNOWLEDGE_LOG_LEVEL") == "debug"


def _reader_left() -> int:
    """The other end of a pipe closed, as ``| head`` does."""
    _drop_output()
    return exit_codes.OK


def _drop_output() -> None:
    """Send what is left to nowhere, so that Python does not complain about it at exit."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, sys.stdout.fileno())
