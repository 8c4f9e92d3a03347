"""A worker process over a Knowledge that only sleeps and answers; started by the tests beside this file."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from knowledge_worker.config import load_settings
from knowledge_worker.errors import ConfigurationError
from knowledge_worker.log import configure_logging
from knowledge_worker.telemetry.observers import NoObserver
from knowledge_worker.worker import run_worker


class SleepyKnowledge:
    """The collection's name says what its pass does."""

    def __init__(self) -> None:
        self.stop = threading.Event()

    observer = NoObserver()

    def metrics(self, *, state: bool = True) -> bytes:
        return b"knowledge_sleepy 1\n"

    def run_pass(self, name: str) -> str:
        match name:
            case "failing":
                return "failed: The provider answered 503."
            case "long":
                print("long began", flush=True)
                return "cancelled" if self.stop.wait(60) else "ok"
            case _:
                print(f"ran {name}", flush=True)
                return "ok"

    def run_embed(self, name: str) -> str:
        print(f"embedded {name}", flush=True)
        return "3 documents"

    def run_tick(self) -> str:
        print("ticked", flush=True)
        return "0 due"

    def node_started(self, queues: Sequence[str]) -> None:
        if "refuse" in sys.argv:
            raise ConfigurationError("The store holds that name as a managed collection.")
        print("node started", ",".join(queues), flush=True)

    def node_alive(self) -> None: ...

    def node_stopped(self) -> None:
        print("node stopped", flush=True)

    def request_stop(self) -> None:
        self.stop.set()


def break_once() -> None:
    """Fail as kombu does when the loss of a connection meets it between two states, once."""
    from kombu.transport.redis import MultiChannelPoller

    whole, left = MultiChannelPoller.on_readable, [1]

    def on_readable(self: MultiChannelPoller, descriptor: int) -> object:
        if left and left.pop():
            raise AttributeError("'NoneType' object has no attribute 'hostname'")
        return whole(self, descriptor)

    MultiChannelPoller.on_readable = on_readable


if __name__ == "__main__":
    if "break-once" in sys.argv:
        break_once()
    settings = load_settings()
    configure_logging(log_format="json", level="info")
    sys.exit(run_worker(SleepyKnowledge(), settings))
