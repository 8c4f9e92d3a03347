"""A deployment under everything that goes wrong, and an oracle that knows what must be there afterwards.

Run ``python benchmarks/soak.py --minutes 30 --seed 1``. Real API, worker and beat processes on a PostgreSQL and a
Valkey of their own, two providers over HTTP. Writers put and delete documents, authors change files and ask for syncs,
searchers search. Meanwhile a hand kills processes, stops them past their lease and continues them, empties and restarts
Redis, restarts PostgreSQL, and makes a provider answer 429, 500, garbage or nothing; some texts are refused for good.

After a quiet time the index must equal what was promised: every accepted write and every file is ready or failed by
name, with exactly its passages and nothing else; every request for a sync is done; no two passes of a collection ran at
once; what was paid for twice is explained by what was in flight when something died. During the run no answer of the
API is a 5xx but 503, and no search finds what was deleted before it. Ends with 1 when that is not so. The seed repeats
what is done; when exactly each process does what is the machine's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import httpx
from soaking.hand import BATCH, CONCURRENCY, LEASE_S, Hand, Supervisor, refuse_poison
from soaking.people import People
from soaking.truth import DECLARED, Truth
from soaking.verdict import Cost, compare, compare_passes, cost, wait_for_quiet

from knowledge_worker.embedded.servers import Servers, start_servers
from knowledge_worker.testing.deployment import TOKEN, Deployment
from knowledge_worker.testing.provider import ScriptedProvider

SETTINGS = {
    "KNOWLEDGE_APP": "soaking.app:knowledge",
    "PYTHONPATH": str(Path(__file__).parent),
    "KNOWLEDGE_MODEL": "two/m",
    "KNOWLEDGE_LEASE_MS": str(round(1000 * LEASE_S)),
    "KNOWLEDGE_CLAIM_MS": "4000",
    "KNOWLEDGE_CLAIM_DOCUMENTS": str(BATCH),
    "KNOWLEDGE_CLAIM_DEATHS": "1000",  # a document beside which processes die all the time is not to blame
    "KNOWLEDGE_EMBED_BATCH_SIZE": str(BATCH),
    "KNOWLEDGE_EMBED_TIMEOUT_MS": "2000",
    "KNOWLEDGE_QUERY_TIMEOUT_MS": "2000",
    "KNOWLEDGE_CONCURRENCY": str(CONCURRENCY),
    "KNOWLEDGE_TICK_MS": "500",
    "KNOWLEDGE_MANAGED_POLL_MS": "2000",
    "KNOWLEDGE_RETRY_MS": "500",
    "KNOWLEDGE_RETRY_MAX_MS": "3000",
    "KNOWLEDGE_PASSES_KEPT": "1000000",
    "KNOWLEDGE_OWN_TABLE_CHUNKS": "150",
    "KNOWLEDGE_SHARED_TABLE_CHUNKS": "60",
}


async def run(
    deployment: Deployment,
    supervisor: Supervisor,
    hand: Hand,
    truth: Truth,
    *,
    database_url: str,
    seconds: float,
    seed: int,
    writers: int,
    every_s: float,
) -> None:
    """Disturb, use, wait for quiet."""
    async with httpx.AsyncClient(
        base_url=deployment.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30
    ) as client:
        until = time.monotonic() + seconds
        people = People(client, truth, seed=seed, until=until)
        await people.create()
        watching = asyncio.create_task(supervisor.watch(until + 600))
        await asyncio.gather(
            hand.disturb(until, every_s=every_s),
            *(people.write(number) for number in range(writers)),
            *(people.change(name) for name in DECLARED),
            people.search(),
            people.search(),
        )
        for name in DECLARED:
            await people.sync(name)
        await wait_for_quiet(client, database_url, truth)
        watching.cancel()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--writers", type=int, default=12)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--every", type=float, default=3, help="seconds between two disturbances, on the mean")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    parser.add_argument("--logs", type=Path, help="where the processes' logs are kept")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kw-soak-") as folder:
        root = Path(folder)
        docs = root / "docs"
        for name in DECLARED:
            (docs / name).mkdir(parents=True)
        truth = Truth(docs)
        with ScriptedProvider(delay_s=0.05) as one, ScriptedProvider(delay_s=0.02) as two:
            providers = (one, two)
            for provider in providers:
                refuse_poison(provider)
            servers = start_servers(root / "data")
            try:
                report = soak(servers, providers, truth, options.logs or root / "run", options)
            finally:
                servers.stop()
    print(json.dumps(report, indent=2) if options.json else as_text(report))
    return 1 if truth.problems else 0


def soak(
    servers: Servers, providers: Sequence[ScriptedProvider], truth: Truth, folder: Path, options: argparse.Namespace
) -> dict[str, object]:
    """One run; its report."""
    assert servers.database_url is not None
    assert servers.redis_url is not None
    addresses = {
        name: {"base_url": provider.base_url} for name, provider in zip(("one", "two"), providers, strict=True)
    }
    environment = {**SETTINGS, "KNOWLEDGE_PROVIDERS": json.dumps(addresses), "SOAK_DOCS": str(truth.folder)}
    began = time.monotonic()
    with Deployment(
        folder, database_url=servers.database_url, redis_url=servers.redis_url, environment=environment
    ) as deployment:
        deployment.run("migrate")
        supervisor = Supervisor(deployment, {"api": 1, "beat": 1, "worker": options.workers}, truth)
        supervisor.start_missing()
        hand = Hand(deployment, supervisor, servers, providers, truth, seed=options.seed)
        asyncio.run(
            run(
                deployment,
                supervisor,
                hand,
                truth,
                database_url=servers.database_url,
                seconds=60 * options.minutes,
                seed=options.seed,
                writers=options.writers,
                every_s=options.every,
            )
        )
        documents = compare(servers.database_url, truth)
        passes = compare_passes(servers.database_url, truth)
        paid = cost(providers, truth)
    return reported(options, truth, documents, passes, paid, seconds=time.monotonic() - began)


def reported(
    options: argparse.Namespace,
    truth: Truth,
    documents: Counter[str],
    passes: Counter[str],
    paid: Cost,
    *,
    seconds: float,
) -> dict[str, object]:
    """What a person wants to see."""
    return {
        "seed": options.seed,
        "minutes": round(seconds / 60, 1),
        "processes": {"api": 1, "beat": 1, "worker": options.workers},
        "disturbances": dict(sorted(truth.events.items())),
        "answers": dict(sorted(truth.answers.items())),
        "documents": dict(sorted(documents.items())),
        "passes": dict(sorted(passes.items())),
        "provider": {
            "calls": paid.calls,
            "passages": paid.passages,
            "paid again": paid.again,
            "explained at most": truth.excused,
        },
        "problems": truth.problems,
    }


def as_text(report: dict[str, object]) -> str:
    """The same, to be read."""
    lines: list[str] = []
    for name, value in report.items():
        if isinstance(value, dict):
            lines += [f"{name}:", *(f"  {key:<36} {count:>8}" for key, count in value.items())]
        elif isinstance(value, list):
            lines += [f"PROBLEM {problem}" for problem in value[:50]]
            lines.append(
                f"{len(value)} problems" if value else "everything that was promised is there, and nothing else"
            )
        else:
            lines.append(f"{name}: {value}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
