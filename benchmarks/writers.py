"""Many writers on many managed collections while workers are killed: is everything there that was accepted?

Run ``python benchmarks/writers.py``: 200 writers on 20 collections for a minute, real API, worker and beat processes,
a PostgreSQL and a Valkey of their own, a provider that refuses some texts; each few seconds a worker is killed (-9)
and another one started. At the end every accepted document must be ready or failed with exactly what was accepted
last, and no passage of anything older may be left. Ends with 1 when that is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg

from knowledge_worker.embedded.servers import start_servers
from knowledge_worker.testing.deployment import TOKEN, Deployment
from knowledge_worker.testing.provider import Rule, ScriptedProvider

SETTINGS = {
    "KNOWLEDGE_MODEL": "fake/model-a",
    "KNOWLEDGE_LEASE_MS": "5000",
    "KNOWLEDGE_CLAIM_MS": "4000",
    "KNOWLEDGE_TICK_MS": "500",
    "KNOWLEDGE_RETRY_MS": "500",
    "KNOWLEDGE_RETRY_MAX_MS": "4000",
}
POISON = "POISON"


@dataclass
class Outcome:
    """What writers know: the last content that was accepted of each document; None for a deletion."""

    expected: dict[tuple[str, str], str | None] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    killed: int = 0
    problems: list[str] = field(default_factory=list)


async def write(client: httpx.AsyncClient, collection: str, writer: int, until: float, outcome: Outcome) -> None:
    """One writer: puts, changes and deletes documents of its own, each only after the last one was answered."""
    rng = random.Random(writer)
    number = 0
    while time.monotonic() < until:
        number += 1
        identifier = f"w{writer}/d{rng.randrange(6)}"
        path = f"/knowledge/collections/{collection}/documents/{identifier.replace('/', '%2F')}"
        draw = rng.random()
        if draw < 0.12:
            await answered(client, "DELETE", path, None, outcome)
            outcome.expected[collection, identifier] = None
            continue
        content = f"writer {writer} wrote version {number} of {identifier}" + (f" {POISON}" if draw > 0.97 else "")
        if draw > 0.8:
            content = "\n\n".join(f"{content}, part {part}: {'some words ' * 120}" for part in range(3))
        await answered(client, "PUT", path, {"content": content}, outcome)
        outcome.expected[collection, identifier] = content
        await asyncio.sleep(rng.random() * 0.5)


async def answered(client: httpx.AsyncClient, method: str, path: str, body: object, outcome: Outcome) -> None:
    """Send until the service accepts it; an answer that never came may have been a success, and both repeat well."""
    while True:
        try:
            answer = await client.request(method, path, json=body)
        except httpx.TransportError as error:
            outcome.answers[type(error).__name__] += 1
            await asyncio.sleep(0.2)
            continue
        outcome.answers[f"{method} {answer.status_code}"] += 1
        if answer.status_code in (200, 202, 204) or (method == "DELETE" and answer.status_code == 404):
            return
        if answer.status_code != 503:
            outcome.problems.append(f"{method}: {answer.status_code} {answer.text[:200]}")
            return
        await asyncio.sleep(0.2)


async def disturb(deployment: Deployment, until: float, seed: int, outcome: Outcome, every_s: float) -> None:
    """Kill a worker and start another one, again and again."""
    rng = random.Random(seed)
    while time.monotonic() < until - 1:
        await asyncio.sleep(every_s * (0.5 + rng.random()))
        workers = [one for one in deployment.alive if "worker" in one.args]  # type: ignore[operator]
        rng.choice(workers).kill()
        outcome.killed += 1
        deployment.start("worker")


def indexed(database_url: str) -> dict[tuple[str, str], list[str]]:
    """Every passage that a search could find: (collection, document) → texts."""
    found: dict[tuple[str, str], list[str]] = {}
    with psycopg.connect(database_url) as connection:
        tables = connection.execute(
            """
            select c.name, g.id, g.storage from collections c join generations g on g.id = c.serving
            """
        ).fetchall()
        for name, generation, storage in tables:
            table, where = ("chunks", f"generation_id = {generation}") if storage == "shared" else (
                f"chunks_{generation}", "true",
            )  # fmt: skip
            rows = connection.execute(
                f"""
                select d.document_id, k.text from {table} k left join documents d on d.id = k.document_id
                where {where} order by 1, k.ord
                """  # type: ignore[arg-type]
            ).fetchall()
            for document, text in rows:
                found.setdefault((name, document or "<deleted>"), []).append(text)
    return found


async def compare(client: httpx.AsyncClient, database_url: str, collections: list[str], outcome: Outcome) -> None:
    """Wait for quiet, then compare the index with what was accepted."""
    end = time.monotonic() + 120
    while True:
        views = [(await client.get(f"/knowledge/collections/{name}")).json() for name in collections]
        pending = sum(view["documents"]["pending"] for view in views)
        if pending == 0 and not any(view["running"] for view in views):
            break
        if time.monotonic() > end:
            outcome.problems.append(f"{pending} documents are still pending: {json.dumps(views)[:2000]}")
            break
        await asyncio.sleep(0.3)
    stored: dict[tuple[str, str], dict[str, object]] = {}
    for name in collections:
        offset = 0
        while True:
            page = (
                await client.get(
                    f"/knowledge/collections/{name}/documents", params={"page[limit]": 100, "page[offset]": offset}
                )
            ).json()
            stored |= {(name, document["id"]): document for document in page["data"]}
            offset += 100
            if offset >= page["meta"]["total"]:
                break
    chunks = indexed(database_url)
    for key, content in outcome.expected.items():
        document, texts = stored.pop(key, None), chunks.pop(key, [])
        if content is None:
            if document is not None or texts:
                outcome.problems.append(f"{key} was deleted and is there")
            continue
        if document is None:
            outcome.problems.append(f"{key} was accepted and is not there")
            continue
        quoted = key[1].replace("/", "%2F")
        answer = (await client.get(f"/knowledge/collections/{key[0]}/documents/{quoted}")).json()
        if answer["content"] != content:
            outcome.problems.append(f"{key} holds something else than what was accepted last")
        outcome.answers[f"document {answer['status']}"] += 1
        if answer["status"] == "ready":
            if not texts or any(text not in content for text in texts):
                outcome.problems.append(f"{key}: its passages are not those of its content")
            if POISON in content:
                outcome.problems.append(f"{key} is ready though the provider refuses it")
        elif answer["status"] == "failed":
            if texts:
                outcome.problems.append(f"{key} failed and has passages")
        else:
            outcome.problems.append(f"{key} is {answer['status']}")
    if stored or chunks:
        outcome.problems.append(f"nobody wrote {[*stored, *chunks][:5]}")


async def run(
    deployment: Deployment, database_url: str, *, writers: int, collections: int, seconds: float, seed: int,
    kill_every_s: float,
) -> Outcome:  # fmt: skip
    """Write, disturb, compare."""
    outcome = Outcome()
    names = [f"notes-{number}" for number in range(collections)]
    limits = httpx.Limits(max_connections=writers, max_keepalive_connections=writers)
    async with httpx.AsyncClient(
        base_url=deployment.url, headers={"Authorization": f"Bearer {TOKEN}"}, limits=limits, timeout=60
    ) as client:
        for name in names:
            answer = await client.post("/knowledge/collections", json={"name": name})
            answer.raise_for_status()
        until = time.monotonic() + seconds
        await asyncio.gather(
            *(
                write(client, names[number % collections], seed * 10_000 + number, until, outcome)
                for number in range(writers)
            ),
            disturb(deployment, until, seed, outcome, kill_every_s),
        )
        await compare(client, database_url, names, outcome)
    return outcome


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writers", type=int, default=200)
    parser.add_argument("--collections", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill-every", type=float, default=4, help="seconds between two kills, on the mean")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kw-writers-") as folder, ScriptedProvider(delay_s=0.02) as provider:
        servers = start_servers(Path(folder) / "data")
        assert servers.database_url is not None
        assert servers.redis_url is not None
        provider.script(Rule(status=400, contains=POISON))
        environment = {**SETTINGS, "KNOWLEDGE_PROVIDERS": json.dumps({"fake": {"base_url": provider.base_url}})}
        try:
            with Deployment(
                Path(folder) / "run",
                database_url=servers.database_url,
                redis_url=servers.redis_url,
                environment=environment,
            ) as deployment:
                deployment.run("migrate")
                deployment.start_api()
                deployment.start("beat")
                for _ in range(options.workers):
                    deployment.start("worker")
                outcome = asyncio.run(
                    run(
                        deployment,
                        servers.database_url,
                        writers=options.writers,
                        collections=options.collections,
                        seconds=options.seconds,
                        seed=options.seed,
                        kill_every_s=options.kill_every,
                    )
                )
        finally:
            servers.stop()
    there = sum(content is not None for content in outcome.expected.values())
    print(f"{options.writers} writers, {options.collections} collections, {options.seconds:g} s, seed {options.seed}")
    print(f"workers killed: {outcome.killed}; documents at the end: {there}; provider calls: {len(provider.requests)}")
    for name, count in sorted(outcome.answers.items()):
        print(f"  {name:<24} {count}")
    for problem in outcome.problems[:20]:
        print(f"PROBLEM {problem}")
    print("everything that was accepted is there" if not outcome.problems else f"{len(outcome.problems)} problems")
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
