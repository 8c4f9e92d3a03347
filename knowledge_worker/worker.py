"""The worker process: Celery on threads, and this process as a node of the deployment.

``knowledge-worker worker`` runs :func:`run_worker`. ``celery -A knowledge_worker.worker worker`` works too: the
application is then built from the environment when it is first asked for.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import structlog
from celery import Celery, signals
from celery.utils.nodenames import host_format

from knowledge_worker.config import Settings, load_settings
from knowledge_worker.errors import ConfigurationError, KnowledgeError
from knowledge_worker.log import configure_logging
from knowledge_worker.queue.celery import create_celery, leave_logging_to_us
from knowledge_worker.tasks import register_tasks
from knowledge_worker.tasks.work import Work
from knowledge_worker.telemetry.endpoint import MetricsServer

log = structlog.get_logger()

STOP_GRACE_S: Final = 15.0
"""Running passes stop at their next step; whatever has not by then is left to the expiry of its lease."""

FIRST_RETRY_S: Final = 1.0
LONGEST_RETRY_S: Final = 10.0

EXIT_CONFIGURATION: Final = 2


class Node(Work, Protocol):
    """What the worker asks of :class:`~knowledge_worker.knowledge.Knowledge` and tells it about its own life."""

    def node_started(self, queues: Sequence[str]) -> None:
        """Register the node and ask for the passes of a start."""
        ...

    def node_alive(self) -> None:
        """A heartbeat."""
        ...

    def node_stopped(self) -> None:
        """Forget the node, in an orderly stop."""
        ...

    def metrics(self, *, state: bool = True) -> bytes:
        """What Prometheus reads."""
        ...

    def request_stop(self) -> None:
        """Running passes stop at their next step; never waits."""
        ...


class NodeKeeper:
    """Registers the node and then keeps it alive, from a thread of its own, whatever the database does meanwhile.

    Args:
        queues: the queues this worker consumes.
        beat_ms: between two heartbeats, in milliseconds.
        refused: called when registering shows that the configuration is wrong, which no retry mends.
    """

    def __init__(
        self, node: Node, queues: Sequence[str], *, beat_ms: int, refused: Callable[[KnowledgeError], None]
    ) -> None:
        self._node = node
        self._queues = queues
        self._beat_s = beat_ms / 1000
        self._refused = refused
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="node", daemon=True)

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def stop(self, timeout_s: float = 0.0) -> None:
        """End, waiting for a call that is under way for at most ``timeout_s`` seconds."""
        self._stop.set()
        if timeout_s and self._thread.is_alive():
            self._thread.join(timeout_s)

    def _run(self) -> None:
        if not self._register():
            return
        log.info("node_registered", queues=list(self._queues))
        well = True
        while not self._stop.wait(self._beat_s):
            try:
                self._node.node_alive()
            except Exception as error:  # noqa: BLE001 - the node lives on, whatever ails the database
                if well:
                    log.warning("heartbeat_failed", error=_one_line(error))
                well = False
            else:
                well = True

    def _register(self) -> bool:
        wait_s = FIRST_RETRY_S
        while not self._stop.is_set():
            try:
                self._node.node_started(self._queues)
            except ConfigurationError as error:
                self._refused(error)
                return False
            except Exception as error:  # noqa: BLE001 - the worker waits for its database as long as it takes
                log.warning("node_not_registered", error=_one_line(error), retry_ms=round(1000 * wait_s))
                self._stop.wait(wait_s)
                wait_s = min(2 * wait_s, LONGEST_RETRY_S)
            else:
                return True
        return False


def run_worker(knowledge: Node, settings: Settings) -> int:
    """Work until SIGTERM or SIGINT; survives restarts of Redis and PostgreSQL.

    Returns:
        The process's exit code: 0 after a clean stop, 2 when the configuration turned out to be wrong.
    """
    celery = worker_app(knowledge, settings)
    refusals: list[KnowledgeError] = []

    def refused(error: KnowledgeError) -> None:
        refusals.append(error)
        log.error("worker_refused", code=error.code, error=error.message)
        knowledge.request_stop()
        _ask_celery_to_stop()

    connect_signals(knowledge, settings, refused=refused)
    while True:
        worker = celery.Worker(
            hostname=host_format(f"kw-{secrets.token_hex(3)}@%h"),
            pool_cls="threads",
            concurrency=settings.concurrency,
            queues=list(settings.queues),
            loglevel=settings.log_level.upper(),
            without_mingle=True,
            without_gossip=True,
            quiet=True,
        )
        worker.start()
        if refusals or not worker.exitcode or _was_asked_to_stop():
            break
        # Some losses of the broker meet kombu in between two states, and Celery takes what follows for its own end.
        log.warning("worker_begins_anew", exit_code=worker.exitcode)
        time.sleep(FIRST_RETRY_S)
    _forget(knowledge)
    log.info("worker_stopped")
    if refusals:
        return EXIT_CONFIGURATION
    return 0 if _was_asked_to_stop() else int(worker.exitcode or 0)  # Celery ends a stop by Ctrl-C with 1


def worker_app(knowledge: Node, settings: Settings) -> Celery:
    """The Celery application with its tasks."""
    celery = create_celery(settings)
    register_tasks(celery, knowledge)
    return celery


def connect_signals(
    knowledge: Node, settings: Settings, *, refused: Callable[[KnowledgeError], None] | None = None
) -> None:
    """Tie the node's life to that of the Celery worker in this process."""
    keeper = NodeKeeper(
        knowledge,
        settings.queues,
        beat_ms=settings.tick_ms,
        refused=refused or (lambda error: log.error("worker_refused", code=error.code, error=error.message)),
    )

    begun = threading.Event()

    def ready(**_: Any) -> None:
        log.info("worker_ready", queues=list(settings.queues), concurrency=settings.concurrency)
        if begun.is_set():
            return
        begun.set()
        keeper.start()
        _serve_metrics(knowledge, settings)

    def stopping(**_: Any) -> None:
        # In a signal handler: nothing here waits, and nothing logs, as the interrupted thread may hold the log's lock.
        keeper.stop()
        knowledge.request_stop()
        overdue = threading.Timer(STOP_GRACE_S, _give_up)
        overdue.daemon = True
        overdue.start()

    leave_logging_to_us()
    signals.worker_ready.connect(ready, weak=False)
    signals.worker_shutting_down.connect(stopping, weak=False)


def _serve_metrics(node: Node, settings: Settings) -> None:
    """Show this process's metrics; a worker works without them, too."""
    if settings.metrics_port is None:
        return
    try:
        server = MetricsServer(
            lambda: node.metrics(state=False),
            host=settings.host,
            port=settings.metrics_port,
            token=settings.metrics_token,
        )
    except OSError as error:
        log.warning("metrics_not_served", error=error.strerror, port=settings.metrics_port)
    else:
        log.info("metrics_served", port=server.port)


def _forget(node: Node) -> None:
    try:
        node.node_stopped()
    except Exception as error:  # noqa: BLE001 - it expires by itself
        log.info("node_not_forgotten", error=_one_line(error))


def _was_asked_to_stop() -> bool:
    from celery.worker import state

    return state.should_stop not in (None, False) or state.should_terminate not in (None, False)


def _ask_celery_to_stop() -> None:
    from celery.worker import state

    state.should_stop = 0


def _give_up() -> None:
    # Threads cannot be ended from outside, and Python would wait for them.
    log.warning("worker_stop_overdue", grace_ms=round(1000 * STOP_GRACE_S))
    os._exit(1)


def _one_line(error: Exception) -> str:
    return error.message if isinstance(error, KnowledgeError) else f"unexpected {type(error).__name__}"


def _app_from_environment() -> Celery:
    from knowledge_worker.loading import load_knowledge

    settings = load_settings()
    configure_logging(log_format=settings.log_format, level=settings.log_level)
    knowledge = load_knowledge(settings)
    connect_signals(knowledge, settings)
    return worker_app(knowledge, settings)


def __getattr__(name: str) -> Any:
    if name == "app":
        # Kept, so that every further look finds the same application.
        globals()["app"] = built = _app_from_environment()
        return built
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
