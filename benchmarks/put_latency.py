"""From a PUT's answer to the first search that finds the document.

Run ``python benchmarks/put_latency.py``: a real API, one idle worker and a beat over a PostgreSQL and a Valkey of
their own, and a provider that answers at once. Each round puts one document over HTTP and then searches for it over
HTTP without a pause until it is found. Beside it stands what one such search takes, measured in the same run: no
document can be found faster. ``--check`` fails when the median is 500 ms or more.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import httpx

from knowledge_worker.embedded.servers import start_servers
from knowledge_worker.testing.deployment import TOKEN, Deployment
from knowledge_worker.testing.provider import ScriptedProvider

BAR_MS = 500
NAME = "notes"


def rounds(client: httpx.Client, count: int, pause_s: float) -> tuple[list[float], list[float]]:
    """Milliseconds until found, and of a search, one each a round."""
    found_ms: list[float] = []
    search_ms: list[float] = []
    for number in range(count):
        time.sleep(pause_s)  # the worker is idle again
        text = f"the {number}th note about subject{number}"
        answer = client.put(f"/knowledge/collections/{NAME}/documents/d{number}", json={"content": text})
        answered = time.perf_counter()
        assert answer.status_code == 202, answer.text
        while True:
            began = time.perf_counter()
            result = client.post("/knowledge/search", json={"query": text, "collections": [NAME], "topK": 1}).json()
            search_ms.append((time.perf_counter() - began) * 1000)
            if result["matches"] and result["matches"][0]["document"] == f"d{number}":
                break
        found_ms.append((time.perf_counter() - answered) * 1000)
    return found_ms, search_ms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--pause", type=float, default=0.1, help="seconds between two rounds")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kw-latency-") as folder, ScriptedProvider() as provider:
        servers = start_servers(Path(folder) / "data")
        assert servers.database_url is not None
        assert servers.redis_url is not None
        environment = {
            "KNOWLEDGE_MODEL": "fake/model-a",
            "KNOWLEDGE_PROVIDERS": json.dumps({"fake": {"base_url": provider.base_url}}),
        }
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
                deployment.start("worker")
                headers = {"Authorization": f"Bearer {TOKEN}"}
                with httpx.Client(base_url=deployment.url, headers=headers, timeout=60) as client:
                    client.post("/knowledge/collections", json={"name": NAME}).raise_for_status()
                    deployment.until(
                        lambda: client.get(f"/knowledge/collections/{NAME}").json()["status"] == "ready",
                        what="the empty collection is ready",
                    )
                    found_ms, search_ms = rounds(client, options.rounds, options.pause)
        finally:
            servers.stop()
    shown = {
        f"p{percent}": statistics.quantiles(found_ms, n=100, method="inclusive")[percent - 1]
        for percent in (5, 50, 90, 95, 99)
    }
    searched = statistics.median(search_ms)
    print(f"PUT to found, {len(found_ms)} rounds, ms: " + "  ".join(f"{name} {ms:.0f}" for name, ms in shown.items()))
    print(f"one search, ms: p50 {searched:.0f}; found after {shown['p50'] / searched:.1f} searches on the median")
    if options.check and shown["p50"] >= BAR_MS:
        print(f"the median is not under {BAR_MS} ms")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
