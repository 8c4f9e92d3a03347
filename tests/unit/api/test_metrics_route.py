"""Who may read the metrics, and what a request leaves in them."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from knowledge_worker.telemetry.prometheus import CONTENT_TYPE, Metrics

from .conftest import READER, FakeKnowledge, create_app

TOKEN = "metrics-token-0123456789"


class Measured(FakeKnowledge):
    """A front door whose requests are counted for real."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.observer = Metrics(version="1", prices={}, collections_max=10)

    def metrics(self) -> bytes:
        return self.observer.exposition()

    def count(self, method: str, route: str, status: str) -> float | None:
        labels = {"method": method, "route": route, "status": status}
        return self.observer.registry.get_sample_value("knowledge_http_requests_total", labels)


def test_metrics_are_text_that_prometheus_reads_and_need_no_token_unless_one_is_set() -> None:
    answer = TestClient(create_app(Measured())).get("/metrics")
    assert (answer.status_code, answer.headers["content-type"]) == (200, CONTENT_TYPE)
    assert 'knowledge_build_info{version="1"} 1.0' in answer.text


@pytest.mark.parametrize("given", [None, f"Bearer {READER}", f"Basic {TOKEN}", "Bearer ", f"Bearer {TOKEN}x"])
def test_where_a_token_is_set_no_other_one_reads_them(given: str | None) -> None:
    client = TestClient(create_app(Measured(metrics_token=TOKEN)))
    answer = client.get("/metrics", headers={} if given is None else {"Authorization": given})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "unauthenticated")
    assert client.get("/metrics", headers={"Authorization": f"bearer {TOKEN}"}).status_code == 200


def test_a_request_is_counted_by_its_route_and_never_by_what_a_caller_makes_up() -> None:
    knowledge = Measured()
    client = TestClient(create_app(knowledge), headers={"Authorization": f"Bearer {READER}"})
    for number in range(3):
        client.get(f"/knowledge/collections/made-up-{number}")
        client.get(f"/somewhere/{number}")
        client.request(f"METHOD{number}", "/knowledge/collections")

    assert knowledge.count("GET", "/knowledge/collections/{name}", "404") == 3
    assert knowledge.count("GET", "none", "404") == 3
    assert "made-up" not in (text := knowledge.metrics().decode())
    assert "METHOD" not in text


def test_a_refused_request_is_counted_too() -> None:
    knowledge = Measured()
    TestClient(create_app(knowledge)).get("/knowledge/collections")
    assert knowledge.count("GET", "none", "401") == 1
