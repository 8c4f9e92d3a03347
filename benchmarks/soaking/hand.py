"""The hand that disturbs a deployment at random, and the supervisor that starts again what ended, as platforms do."""

from __future__ import annotations

import asyncio
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import redis

from knowledge_worker.embedded.postgres import EmbeddedPostgres
from knowledge_worker.embedded.process import Server
from knowledge_worker.embedded.servers import Servers
from knowledge_worker.embedded.valkey import EmbeddedValkey
from knowledge_worker.testing.deployment import Deployment
from knowledge_worker.testing.provider import Rule, ScriptedProvider
from soaking.truth import POISON, Truth

LEASE_S: Final = 5.0
BATCH: Final = 16
CONCURRENCY: Final = 6
IN_FLIGHT: Final = 2 * BATCH * CONCURRENCY
"""Passages that a process may have paid for and not stored when it dies: a call and a claim of each of its tasks."""
BAD_DAYS: Final = {
    "429": Rule(status=429),
    "429 with Retry-After": Rule(status=429, headers={"Retry-After": "1"}),
    "500": Rule(status=500),
    "garbage": Rule(body="too_few"),
    "nothing": Rule(hold=True),
    "slow": Rule(delay_s=0.5),
}


class Supervisor:
    """Keeps so many processes of each kind running."""

    def __init__(self, deployment: Deployment, wanted: dict[str, int], truth: Truth) -> None:
        self._deployment = deployment
        self._wanted = wanted
        self._truth = truth
        self._kinds: dict[int, str] = {}
        self._expected: set[int] = set()

    def start_missing(self) -> None:
        """Start what is not running; what ended by itself is counted."""
        for kind, count in self._wanted.items():
            for _ in range(count - len(self.running(kind))):
                process = self._deployment.start(kind)
                self._kinds[process.pid] = kind
        for process in self._deployment.processes:
            if process.poll() is not None and process.pid not in self._expected and process.pid in self._kinds:
                self._expected.add(process.pid)
                self._truth.events[f"{self._kinds[process.pid]} ended by itself ({process.poll()})"] += 1

    def running(self, kind: str) -> list[subprocess.Popen[bytes]]:
        """The processes of a kind."""
        return [one for one in self._deployment.alive if self._kinds.get(one.pid) == kind]

    def about_to_end(self, process: subprocess.Popen[bytes]) -> None:
        """Its end is no surprise."""
        self._expected.add(process.pid)

    async def watch(self, until: float) -> None:
        """Look after them until then."""
        while time.monotonic() < until:
            self.start_missing()
            await asyncio.sleep(0.5)


class Hand:
    """One disturbance after the other, drawn from a seed."""

    def __init__(
        self,
        deployment: Deployment,
        supervisor: Supervisor,
        servers: Servers,
        providers: Sequence[ScriptedProvider],
        truth: Truth,
        *,
        seed: int,
    ) -> None:
        self._deployment = deployment
        self._supervisor = supervisor
        self._providers = providers
        self._truth = truth
        self._rng = random.Random(seed)
        self._postgres = _part(servers, EmbeddedPostgres)
        self._valkey = _part(servers, EmbeddedValkey)
        assert servers.redis_url is not None
        self._redis = redis.Redis.from_url(servers.redis_url)
        self._acts: list[tuple[Callable[[], Awaitable[None]], int]] = [
            (self.kill_worker, 6),
            (self.stop_worker, 4),
            (self.pause_worker, 3),
            (self.kill_api, 1),
            (self.kill_beat, 1),
            (self.empty_redis, 2),
            (self.restart_redis, 2),
            (self.restart_postgres, 2),
            (self.trouble_provider, 8),
        ]

    async def disturb(self, until: float, *, every_s: float) -> None:
        """Do something about every so many seconds."""
        acts, weights = zip(*self._acts, strict=True)
        while time.monotonic() < until:
            await asyncio.sleep(every_s * (0.5 + self._rng.random()))
            (act,) = self._rng.choices(acts, weights)
            self._truth.events[act.__name__.replace("_", " ")] += 1
            await act()
        for provider in self._providers:
            _answer_well(provider)

    async def kill_worker(self) -> None:
        for process in self._one("worker"):
            self._truth.excused += IN_FLIGHT
            process.kill()

    async def stop_worker(self) -> None:
        """SIGTERM: it hands over, and has a few seconds for it."""
        for process in self._one("worker"):
            self._truth.excused += IN_FLIGHT
            process.terminate()

    async def pause_worker(self) -> None:
        """SIGSTOP until its lease and its claims are over, then SIGCONT: it must write nothing of what it held."""
        for process in self._one("worker", ends=False):
            self._truth.excused += IN_FLIGHT
            process.send_signal(signal.SIGSTOP)
            await asyncio.sleep(LEASE_S * (1.2 + self._rng.random()))
            process.send_signal(signal.SIGCONT)

    async def kill_api(self) -> None:
        for process in self._one("api"):
            process.kill()

    async def kill_beat(self) -> None:
        for process in self._one("beat"):
            process.kill()

    async def empty_redis(self) -> None:
        await asyncio.to_thread(self._redis.flushall)

    async def restart_redis(self) -> None:
        """Away for a moment, and empty afterwards."""
        await asyncio.to_thread(_kill, self._valkey)
        await asyncio.sleep(2 * self._rng.random())
        shutil.rmtree(next(self._valkey._data.glob("appendonlydir")), ignore_errors=True)
        await asyncio.to_thread(self._valkey.start)

    async def restart_postgres(self) -> None:
        """Killed without a word; it replays its log when it comes back."""
        self._truth.excused += 2 * IN_FLIGHT
        await asyncio.to_thread(_kill, self._postgres)
        await asyncio.sleep(2 * self._rng.random())
        await asyncio.to_thread(self._postgres.start)

    async def trouble_provider(self) -> None:
        provider = self._rng.choice(self._providers)
        name, rule = self._rng.choice(list(BAD_DAYS.items()))
        self._truth.events[f"provider: {name}"] += 1
        # What fails takes along what its tasks had in hand of documents that are not whole.
        self._truth.excused += IN_FLIGHT
        provider.script(rule)
        await asyncio.sleep(1 + 4 * self._rng.random())
        _answer_well(provider)

    def _one(self, kind: str, *, ends: bool = True) -> list[subprocess.Popen[bytes]]:
        running = self._supervisor.running(kind)
        chosen = self._rng.sample(running, min(1, len(running)))
        for process in chosen:
            if ends:
                self._supervisor.about_to_end(process)
        return chosen


def refuse_poison(provider: ScriptedProvider) -> None:
    """What a provider always does."""
    provider.script(Rule(status=400, contains=POISON))


def _answer_well(provider: ScriptedProvider) -> None:
    provider.clear_script()
    provider.release()
    refuse_poison(provider)


def _part(servers: Servers, kind: type[Server]) -> Server:
    return next(part for part in servers.parts if isinstance(part, kind))


def _kill(server: Server) -> None:
    server.kill()
    while server.poll() is None:
        time.sleep(0.02)
