"""One collection over many workers: how throughput grows with them, and that it stops at a provider's limit.

Usage: ``python benchmarks/scaling.py [--workers 1 2 4 8] [--delay 0.2] [--batch 4] [--check]``.

Real worker and beat processes embed one folder with a provider that takes 200 ms a call, whatever is in it; so a worker
mostly waits, and this measures how well the work is shared, not how fast the machine is. Each deployment starts on an
empty database; the time is that of the pass, from its record. A worker of 8 threads makes up to 6 calls at once for
another's pass, and the holder of the lease one more: ``6 n + 1`` in all, which is what "of the calls possible" compares
with. The last line repeats the largest with a limit of half of what it reached, and counts requests at the provider.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import harness
import psycopg

from knowledge_worker.embedded.servers import start_servers
from knowledge_worker.testing.deployment import Deployment
from knowledge_worker.testing.provider import ScriptedProvider

THREADS = 8
HELPERS = THREADS - 2
SCALING_MIN = 0.8
"""Of what the number of workers promises: "near linear"."""


@dataclass(frozen=True)
class Measured:
    """One pass.

    Attributes:
        seconds: from its start to its end.
        calls: requests at the provider.
        a_minute: requests, from the first to the last one.
        most_a_minute: the highest rate of requests over any 5 s, extrapolated.
        parallel: requests being answered at once, at most.
    """

    seconds: float
    calls: int
    a_minute: float
    most_a_minute: float
    parallel: int


def measure(
    database_url: str, redis_url: str, workers: int, passages: int, options: argparse.Namespace, limit: int | None
) -> Measured:
    """Index ``passages`` documents of one passage with so many workers."""
    with (
        tempfile.TemporaryDirectory(prefix="kw-scaling-") as folder,
        ScriptedProvider(delay_s=options.delay) as provider,
    ):
        docs = Path(folder) / "docs"
        docs.mkdir()
        for number in range(passages):
            (docs / f"d{number:06}.md").write_text(f"Document {number} of the collection says something of its own.")
        entry: dict[str, object] = {"base_url": provider.base_url}
        if limit is not None:
            entry["requests_per_minute"] = limit
        environment = {
            "KNOWLEDGE_DOCS": str(docs),
            "KNOWLEDGE_MODEL": "fake/m",
            "KNOWLEDGE_PROVIDERS": json.dumps({"fake": entry}),
            "KNOWLEDGE_CONCURRENCY": str(THREADS),
            "KNOWLEDGE_EMBED_CONCURRENCY": str(HELPERS * workers + 1),
            "KNOWLEDGE_EMBED_BATCH_SIZE": str(options.batch),
            "KNOWLEDGE_CLAIM_DOCUMENTS": str(options.batch),
            "KNOWLEDGE_TICK_MS": "1000",
        }
        with Deployment(
            Path(folder) / "run", database_url=database_url, redis_url=redis_url, environment=environment
        ) as deployment:
            deployment.run("migrate")
            for _ in range(workers):
                deployment.start("worker")
            deployment.start("beat")
            with psycopg.connect(database_url, autocommit=True) as connection:
                deployment.until(
                    lambda: connection.execute("select 1 from passes where outcome = 'ok'").fetchone(),
                    what="the pass",
                    seconds=600,
                )
                row = connection.execute(
                    "select extract(epoch from ended_at - started_at)::float, (select count(*) from chunks) "
                    "from passes where outcome = 'ok' order by id limit 1"
                ).fetchone()
        assert row is not None
        if row[1] != passages:
            raise RuntimeError(f"{row[1]} of {passages} passages are indexed")
        came = sorted(request.at for request in provider.requests)
        a_minute = 60 * (len(came) - 1) / (came[-1] - came[0])
        return Measured(row[0], len(came), a_minute, _highest_rate(came), provider.max_parallel)


def _highest_rate(came: list[float], window_s: float = 5.0) -> float:
    most, first = 0, 0
    for last, at in enumerate(came):
        while at - came[first] >= window_s:
            first += 1
        most = max(most, last - first + 1)
    return most * 60 / window_s


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--delay", type=float, default=0.2, help="seconds a call takes")
    parser.add_argument("--batch", type=int, default=4, help="passages in a call")
    parser.add_argument("--seconds", type=float, default=15, help="about so long takes each pass")
    parser.add_argument("--check", action="store_true", help="end with 1 when a bar is missed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kw-scaling-servers-") as folder:
        servers = start_servers(Path(folder) / "data")
        assert servers.redis_url is not None
        try:
            assert servers.database_url is not None
            report = harness.Report()
            print(harness.described_machine(servers.database_url), flush=True)
            rates: dict[int, float] = {}
            for workers in options.workers:
                possible = (HELPERS * workers + 1) / options.delay
                passages = round(possible * options.seconds) * options.batch
                with harness.database(servers.database_url) as url:
                    one = measure(url, servers.redis_url, workers, passages, options, None)
                rates[workers] = passages / one.seconds
                first = options.workers[0]
                grown = rates[workers] / rates[first]
                promised = (HELPERS * workers + 1) / (HELPERS * first + 1)
                report.add(
                    f"{workers} workers: passages a second",
                    f"{rates[workers]:,.0f}, {grown:.2f} times {first} worker's ({promised:.2f} times the calls); "
                    f"{one.calls / one.seconds / possible:.0%} of the calls possible, {one.parallel} at once",
                    bar=f"{SCALING_MIN:.0%} of linear",
                    ok=grown >= SCALING_MIN * promised,
                )
            workers = options.workers[-1]
            limit = round(rates[workers] / options.batch * 60 / 2)
            passages = round(limit / 60 * options.seconds) * options.batch
            with harness.database(servers.database_url) as url:
                limited = measure(url, servers.redis_url, workers, passages, options, limit)
            report.add(
                f"{workers} workers, at most {limit:,} requests a minute",
                f"{limited.a_minute:,.0f} a minute, {limited.most_a_minute:,.0f} in the fullest 5 s",
                bar="never over the limit, and near it",
                ok=limited.most_a_minute <= 1.02 * limit + 12 and limited.a_minute >= 0.9 * limit,
            )
        finally:
            servers.stop()
    report.show()
    return report.status(check=options.check)


if __name__ == "__main__":
    sys.exit(main())
