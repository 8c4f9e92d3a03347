"""An embedding provider for tests: a real HTTP server with OpenAI's protocol that counts and can be scripted.

In a test::

    with ScriptedProvider() as provider:
        provider.script(Rule(status=429, times=2, headers={"Retry-After": "7"}))
        ...  # workers in any process call provider.base_url
        assert provider.count_of("some passage") == 1

On its own, for several processes that share one: ``python -m knowledge_worker.testing.provider --port 8200``, then
``GET /_state`` answers what was counted, ``POST /_script`` takes one rule or a list of rules as JSON (an empty list
clears the script), ``POST /_release`` lets held answers go, ``POST /_reset`` forgets everything.
"""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Sequence
from types import TracebackType

from knowledge_worker.testing.provider_http import ProviderServer
from knowledge_worker.testing.provider_ledger import ProviderLedger, RecordedRequest
from knowledge_worker.testing.provider_rules import Garbage, Rule, quota_exhausted

__all__ = ["Garbage", "RecordedRequest", "Rule", "ScriptedProvider", "quota_exhausted"]


class ScriptedProvider(ProviderLedger):
    """The server, listening from the moment it is made.

    Args:
        dimensions: of its vectors, unless a request asks for others.
        host: the address it listens on.
        port: 0 takes a free one.
        delay_s: seconds each answer takes.
    """

    def __init__(self, *, dimensions: int = 64, host: str = "127.0.0.1", port: int = 0, delay_s: float = 0.0) -> None:
        super().__init__(dimensions=dimensions, delay_s=delay_s)
        self._server = ProviderServer((host, port), self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="provider", daemon=True)
        self._thread.start()

    def __enter__(self) -> ScriptedProvider:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The server's address, below which the control endpoints are."""
        return f"http://{self._server.server_address[0]}:{self.port}"

    @property
    def base_url(self) -> str:
        """What a client takes for ``OPENAI_BASE_URL``."""
        return f"{self.url}/v1"

    def wait_for_connections(self, count: int, *, timeout_s: float = 30.0) -> None:
        """Return once ``count`` clients are connected.

        Raises:
            TimeoutError: there were others all the time.
        """
        if not self._server.wait_for_connections(count, timeout_s):
            raise TimeoutError(f"never {count} connections in {timeout_s} s")

    def close(self) -> None:
        """Stop listening and break every connection, held answers too."""
        self.break_off()
        self._server.shutdown()
        self._server.server_close()
        self._server.break_connections()
        self._thread.join()


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until SIGINT or SIGTERM; the first line printed is the base URL."""
    parser = argparse.ArgumentParser(
        prog="python -m knowledge_worker.testing.provider", description="An embedding provider for tests."
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--delay", type=float, default=0.0, help="seconds each answer takes")
    options = parser.parse_args(arguments)
    stop = threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, on_signal)
    with ScriptedProvider(
        dimensions=options.dimensions, host=options.host, port=options.port, delay_s=options.delay
    ) as provider:
        print(provider.base_url, flush=True)  # noqa: T201
        stop.wait()


if __name__ == "__main__":
    main()
