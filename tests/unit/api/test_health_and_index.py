from __future__ import annotations

from typing import Any

from starlette.testclient import TestClient

from knowledge_worker.errors import ServiceUnavailableError


def test_a_process_that_lives_says_so_without_asking_anything(client: TestClient, knowledge: Any) -> None:
    answer = client.get("/healthz")
    assert (answer.status_code, answer.json(), knowledge.asked) == (200, {"status": "ok"}, [])


def test_ready(client: TestClient) -> None:
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


def test_what_is_missing_is_named(client: TestClient, knowledge: Any) -> None:
    knowledge.problems = ["Nobody consumes the queue embed."]
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "unready", "missing": ["Nobody consumes the queue embed."]}


def test_what_a_person_should_look_at_is_named_although_work_goes_on(client: TestClient, knowledge: Any) -> None:
    knowledge.worries = ["claims: nobody takes them up."]
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {"status": "ready", "warnings": ["claims: nobody takes them up."]},
    )


def test_a_readiness_that_cannot_be_found_out_is_not_ready(client: TestClient, knowledge: Any) -> None:
    knowledge.error = ServiceUnavailableError("PostgreSQL does not answer.")
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json() == {"status": "unready", "missing": ["PostgreSQL does not answer."]}


def test_the_front_page_has_links_that_work(client: TestClient) -> None:
    page = client.get("/").json()
    assert page["name"] == "knowledge-worker"
    assert {client.get(link).status_code for link in page["links"].values()} == {200}
