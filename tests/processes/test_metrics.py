"""Metrics and readiness of real processes: what they say after passes, failures, searches and deaths."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx
import promql_parser
import psycopg
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from knowledge_worker.embedded.servers import Servers, start_servers
from knowledge_worker.testing.deployment import TOKEN, Deployment
from knowledge_worker.testing.provider import Rule, ScriptedProvider

pytestmark = pytest.mark.processes

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PRICE = 20.0
WHO = {"provider": "fake", "model": "model-a"}


class Page:
    """What one process shows at ``/metrics``."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}

    def value(self, name: str, **labels: str) -> float:
        """The sum of the samples with these labels, 0 without any."""
        found = (sample for family in self.families.values() for sample in family.samples if sample.name == name)
        return sum(sample.value for sample in found if labels.items() <= sample.labels.items())

    @property
    def names(self) -> set[str]:
        """Every name that a query may use."""
        names: set[str] = set()
        for name, family in self.families.items():
            endings = {
                "counter": ("_total",),
                "histogram": ("_bucket", "_sum", "_count"),
                "summary": ("_sum", "_count"),
            }
            names |= {name + ending for ending in endings.get(family.type, ("",))}
        return names


class Watched(Deployment):
    """A deployment and its pages."""

    def start_worker(self, **settings: str) -> Popen[bytes]:
        worker = self.start("worker", KNOWLEDGE_METRICS_PORT="0", **settings)
        self.until(lambda: self.port_of(worker), what="the worker shows its metrics", process=worker)
        return worker

    def port_of(self, worker: Popen[bytes]) -> int | None:
        (log,) = self.logs.glob(f"{self.processes.index(worker):03}-*.log")
        found = re.search(r'"event": "metrics_served".*?"port": (\d+)', log.read_text())
        return int(found[1]) if found else None

    def page(self, worker: Popen[bytes] | None = None) -> Page:
        """Of a worker, else of the API."""
        url = self.url if worker is None else f"http://127.0.0.1:{self.port_of(worker)}"
        return Page(httpx.get(f"{url}/metrics", timeout=60).raise_for_status().text)

    def ready(self) -> tuple[int, dict[str, Any]]:
        answer = httpx.get(f"{self.url}/readyz", timeout=60)
        return answer.status_code, answer.json()


@pytest.fixture
def own_servers(tmp_path: Path) -> Iterator[Servers]:
    servers = start_servers(tmp_path / "data")
    yield servers
    servers.stop()


@pytest.fixture
def watched(tmp_path: Path, own_servers: Servers, provider: ScriptedProvider) -> Iterator[Watched]:
    fake = {"base_url": provider.base_url, "price_per_million_tokens": PRICE}
    environment = {
        "KNOWLEDGE_MODEL": "fake/model-a",
        "KNOWLEDGE_PROVIDERS": json.dumps({"fake": fake}),
        "KNOWLEDGE_TICK_MS": "300",
        "KNOWLEDGE_RETRY_MS": "60000",
    }
    assert own_servers.database_url is not None
    assert own_servers.redis_url is not None
    with Watched(
        tmp_path / "run",
        database_url=own_servers.database_url,
        redis_url=own_servers.redis_url,
        environment=environment,
    ) as watched:
        watched.run("migrate")
        yield watched


@pytest.fixture
def client(watched: Watched) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    with httpx.Client(base_url=f"{watched.url}/knowledge/", headers=headers, timeout=60) as client:
        yield client


def put(client: httpx.Client, document: str, content: str) -> None:
    client.put(f"collections/notes/documents/{document}", json={"content": content}).raise_for_status()


def counts(client: httpx.Client) -> dict[str, int]:
    return client.get("collections/notes").json()["documents"]


def test_what_passes_failures_and_searches_leave_in_the_metrics(
    watched: Watched, client: httpx.Client, provider: ScriptedProvider
) -> None:
    provider.script(Rule(status=400, contains="poison"))
    watched.start_api()
    worker = watched.start_worker()
    watched.start("beat")
    client.post("collections", json={"name": "notes"}).raise_for_status()
    for document, content in {"a": "apples are red", "b": "bananas are yellow", "c": "some poison"}.items():
        put(client, document, content)
    watched.until(
        lambda: (found := counts(client))["ready"] == 2 and found["failed"] == 1, what="two ready, one failed"
    )
    watched.until(lambda: watched.page(worker).value("knowledge_passes_running") == 0, what="the pass ended")

    page = watched.page(worker)
    calls = {one: page.value("knowledge_embedding_calls_total", outcome=one, **WHO) for one in ("ok", "refused")}
    assert calls["ok"] + calls["refused"] == len(provider.requests)
    assert calls["refused"] >= 1
    assert page.value("knowledge_embedding_call_duration_seconds_count", purpose="document", **WHO) == len(
        provider.requests
    )
    tokens = page.value("knowledge_embedding_tokens_total", **WHO)
    assert tokens >= 6, "three words in each of two documents"
    assert page.value("knowledge_embedding_cost_total", **WHO) == pytest.approx(tokens * PRICE / 1_000_000)
    done = page.value("knowledge_passes_total", collection="notes", outcome="ok")
    assert done >= 1
    assert page.value("knowledge_pass_duration_seconds_count", outcome="ok") == done
    assert page.value("knowledge_pass_step_duration_seconds_count", step="embed") >= done
    assert page.value("knowledge_pass_passages_total", origin="embedded") == 2
    assert page.value("knowledge_tasks_total", task="knowledge.tick", outcome="ok") >= 1
    assert page.value("process_resident_memory_bytes") > 10_000_000

    asked = len(provider.requests)
    for query, mode in (("red apples", "hybrid"), ("red apples", "semantic"), ("bananas", "lexical")):
        client.post("search", json={"query": query, "mode": mode}).raise_for_status()
    assert len(provider.requests) == asked + 1, "the second search knows the query's vector"
    provider.script(Rule(status=500))
    assert client.post("search", json={"query": "apples again"}).json()["degraded"]
    assert client.post("search", json={"query": "and again", "mode": "semantic"}).status_code >= 500
    provider.clear_script()
    provider.script(Rule(status=429))
    put(client, "d", "dates are brown")
    watched.until(lambda: watched.page().value("knowledge_collection_failing", collection="notes"), what="it fails")

    page = watched.page()
    searches = {
        (mode, outcome): page.value("knowledge_searches_total", mode=mode, outcome=outcome)
        for mode in ("hybrid", "semantic", "lexical")
        for outcome in ("ok", "degraded", "failed")
    }
    assert {which: count for which, count in searches.items() if count} == {
        ("hybrid", "ok"): 1,
        ("hybrid", "degraded"): 1,
        ("semantic", "ok"): 1,
        ("semantic", "failed"): 1,
        ("lexical", "ok"): 1,
    }
    assert page.value("knowledge_search_duration_seconds_count", mode="hybrid") == 2
    assert page.value("knowledge_embedding_calls_total", purpose="query", outcome="ok", **WHO) == 1
    assert page.value("knowledge_embedding_calls_total", purpose="query", outcome="unavailable", **WHO) == 2
    put_route = "/knowledge/collections/{name}/documents/{id}"
    assert page.value("knowledge_http_requests_total", method="PUT", route=put_route, status="202") == 4
    assert page.value("knowledge_http_request_duration_seconds_count", method="PUT", route=put_route) == 4

    statuses = {one: page.value("knowledge_collection_documents", status=one) for one in ("pending", "ready", "failed")}
    assert statuses == {"pending": 1, "ready": 2, "failed": 1}
    assert page.value("knowledge_collection_passages", collection="notes") == 2
    assert 0 <= time.time() - page.value("knowledge_collection_pending_since_timestamp_seconds") < 60
    assert 0 <= time.time() - page.value("knowledge_collection_synced_timestamp_seconds") < 60
    assert page.value("knowledge_collection_failures", collection="notes") == 1
    assert 0 < page.value("knowledge_collection_retry_timestamp_seconds") - time.time() <= 60
    assert 0 <= time.time() - page.value("knowledge_last_tick_timestamp_seconds") < 60
    assert page.value("knowledge_workers") == 1
    assert {one: page.value("knowledge_queue_consumers", queue=one) for one in ("control", "sync", "embed")} == {
        "control": 1,
        "sync": 1,
        "embed": 1,
    }
    assert page.value("knowledge_state_read_success") == 6
    page = watched.page(worker)
    assert page.value("knowledge_passes_total", collection="notes", outcome="failed") == 1
    recorded = client.get("collections/notes/passes").json()["data"]
    assert {(one["trigger"], one["outcome"]) for one in recorded} == {
        (sample.labels["trigger"], sample.labels["outcome"]) for sample in page.families["knowledge_passes"].samples
    }
    assert page.value("knowledge_embedding_calls_total", outcome="rate_limited", **WHO) == 1
    assert page.value("knowledge_provider_pauses_total", provider="fake") == 1
    assert "knowledge_collection_documents" not in page.families, "one kind of process tells the state"


def test_a_killed_worker_is_seen_by_the_one_that_goes_on(
    watched: Watched, client: httpx.Client, provider: ScriptedProvider
) -> None:
    watched.environment |= {"KNOWLEDGE_LEASE_MS": "3000", "KNOWLEDGE_CLAIM_MS": "3000", "KNOWLEDGE_RETRY_MS": "300"}
    watched.start_api()
    first = watched.start_worker()
    watched.start("beat")
    client.post("collections", json={"name": "notes"}).raise_for_status()
    provider.script(Rule(hold=True, times=1))
    put(client, "a", "apples are red")
    watched.until(lambda: watched.page(first).value("knowledge_passes_running"), what="a pass of the first worker")
    provider.wait_for_requests(1)
    gone = watched.port_of(first)
    first.kill()
    first.wait()
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"http://127.0.0.1:{gone}/metrics")

    second = watched.start_worker()
    assert watched.page(second).value("knowledge_embedding_calls_total", outcome="ok", **WHO) <= 1
    watched.until(lambda: counts(client)["ready"] == 1, what="the document is ready")
    watched.until(
        lambda: watched.page(second).value("knowledge_passes_total", outcome="ok"), what="its pass is counted"
    )
    page = watched.page(second)
    assert page.value("knowledge_lease_losses_total", reason="expired") == 1
    assert page.value("knowledge_passes_total", outcome="ok") >= 1
    watched.until(lambda: watched.page().value("knowledge_workers") == 1, what="the dead worker is forgotten")


def test_readiness_and_status_name_an_old_beat_a_queue_without_consumer_and_stuck_claims(
    watched: Watched, client: httpx.Client
) -> None:
    watched.environment["KNOWLEDGE_BEAT_OLD_MS"] = "4000"
    watched.start_api()
    worker = watched.start_worker(KNOWLEDGE_QUEUES="control,sync")
    watched.until(lambda: watched.ready()[0] == 503, what="a queue without consumer")
    watched.until(lambda: "embed" in str(watched.ready()[1]["missing"]), what="it is named")
    assert watched.page().value("knowledge_queue_consumers", queue="embed") == 0

    other = watched.start_worker(KNOWLEDGE_QUEUES="embed")
    watched.until(lambda: "beat" in str(watched.ready()[1].get("missing")), what="beat is named")
    assert watched.ready()[1]["missing"] == ["beat: there was no tick yet; start it with `knowledge-worker beat`"]
    watched.run("status")
    assert "Missing: beat: there was no tick yet" in watched.tail()

    watched.start("beat")
    watched.until(lambda: watched.ready() == (200, {"status": "ready"}), what="everything is there")
    client.post("collections", json={"name": "notes"}).raise_for_status()
    put(client, "a", "apples are red")
    watched.until(lambda: counts(client)["ready"] == 1, what="the document is ready")
    with psycopg.connect(watched.environment["KNOWLEDGE_DATABASE_URL"]) as connection:
        connection.execute("update documents set claim_token = 'dead', claim_until = now() - interval '1 hour'")
    status, answer = watched.ready()
    assert (status, answer["status"]) == (200, "ready")
    assert "1 document" in answer["warnings"][0]
    watched.run("status")
    assert "Warning: claims: nobody takes up what a dead worker had in hand (1 document)" in watched.tail()
    watched.until(lambda: watched.page().value("knowledge_stuck_claims") == 1, what="they are in the metrics")

    for process in (worker, other):
        process.terminate()
        process.wait()
    watched.until(lambda: len(watched.ready()[1].get("missing", ())) == 3, what="each queue is named")


def dashboard_queries() -> list[str]:
    board = json.loads((DEPLOY / "grafana/dashboard.json").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", ())]
    return [query.replace("$__rate_interval", "5m").replace("$collection", ".*") for query in queries]


def alert_queries() -> list[str]:
    groups = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"]
    return [rule["expr"] for group in groups for rule in group["rules"]]


def metrics_in(node: Any) -> set[str]:
    """The names of the metrics that a parsed query selects."""
    if isinstance(node, promql_parser.VectorSelector):
        return {node.name}
    children = [getattr(node, name, None) for name in ("expr", "lhs", "rhs", "vector_selector", "param")]
    children += list(getattr(node, "args", None) or ())
    return {name for child in children if child is not None for name in metrics_in(child)}


def documented() -> set[str]:
    page = (ROOT / "docs/how-to/monitor.md").read_text()
    return set(re.findall(r"^\| `(knowledge_\w+)`", page, re.MULTILINE))


def test_dashboard_alerts_and_documentation_name_the_metrics_that_there_are(watched: Watched) -> None:
    watched.start_api()
    worker = watched.start_worker()
    watched.start("beat")
    watched.until(lambda: "knowledge_last_tick_timestamp_seconds" in watched.page().names, what="the first tick")
    api, work = watched.page(), watched.page(worker)
    there = api.names | work.names

    for queries in (dashboard_queries(), alert_queries()):
        named = {name for query in queries for name in metrics_in(promql_parser.parse(query))}
        assert len(named) > 10
        assert named <= there

    ours = {
        name + ("_total" if family.type == "counter" else "")
        for page in (api, work)
        for name, family in page.families.items()
        if name.startswith("knowledge_")
    }
    assert documented() == ours
    alerts = yaml.safe_load((DEPLOY / "prometheus/alerts.yml").read_text())["groups"][0]["rules"]
    text = (ROOT / "docs/how-to/monitor.md").read_text()
    assert re.findall(r"^\| `(Knowledge\w+)`", text, re.MULTILINE) == [rule["alert"] for rule in alerts]
