"""Real processes that log everything while everything goes wrong: no secret and no content is in what they leave."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpx
import psycopg
import pytest
import redis
from sqlalchemy import make_url

from knowledge_worker.testing.deployment import Deployment
from knowledge_worker.testing.provider import Rule, ScriptedProvider

pytestmark = pytest.mark.processes

KEY = "sk-key-of-the-provider-0123456789"
WRITER = "token-of-a-writer-0123456789"
READER = "token-of-a-reader-0123456789"
GUESS = "token-that-nobody-issued-0123"
HOOK = "secret-of-a-hook-0123456789"
METRICS = "token-for-metrics-0123456789"
DOCUMENT, QUESTION = "zanzibarine marmalade recipe", "whereabouts of quicksilver"
INJECTED = 'a\n{"level": "info", "event": "all_is_well"}\r\x1b[2J'

REDIS_NUMBER = 15
"""Of the databases of the shared server, one that no other test uses."""

SECRETS = [KEY, WRITER, READER, GUESS, HOOK, METRICS]
CONTENT = ["zanzibarine", "quicksilver"]


class Run(Deployment):
    """API, worker and beat at level debug; tokens, a hook, a provider with a key, a source with a password."""

    def __init__(self, folder: Path, *, database_url: str, redis_url: str, provider: ScriptedProvider) -> None:
        tokens = [
            {"value": WRITER, "id": "writer", "permissions": ["knowledge:*"]},
            {"value": READER, "id": "reader", "permissions": ["knowledge:read"]},
        ]
        servers = {"acme": {"base_url": provider.base_url, "key_variable": "ACME_KEY"}}
        environment = {
            "KNOWLEDGE_TOKENS": json.dumps(tokens),
            "KNOWLEDGE_HOOKS": json.dumps({"push": {"secret": HOOK, "collections": ["notes"]}}),
            "KNOWLEDGE_METRICS_TOKEN": METRICS,
            "KNOWLEDGE_METRICS_PORT": "0",
            "KNOWLEDGE_PROVIDERS": json.dumps(servers),
            "KNOWLEDGE_MODEL": "acme/m",
            "ACME_KEY": KEY,
            "KNOWLEDGE_LOG_LEVEL": "debug",
            "KNOWLEDGE_RETRY_MS": "200",
            "KNOWLEDGE_TICK_MS": "200",
        }
        super().__init__(folder, database_url=database_url, redis_url=redis_url, environment=environment)
        self.redis = redis.Redis.from_url(redis_url)
        self.secrets = [*SECRETS, *filter(None, [make_url(one).password for one in (database_url, redis_url)])]
        self.answers: list[str] = []

    def ask(self, method: str, path: str, token: str | None = WRITER, **options: Any) -> httpx.Response:
        """Send a request and keep the answer."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= options.pop("headers", {})
        answer = httpx.request(method, f"{self.url}{path}", headers=headers, timeout=60, **options)
        self.answers.append(f"{answer.headers} {answer.text}")
        return answer

    def log(self) -> str:
        """Of the processes that serve; a command's output is no log."""
        return "".join(file.read_text() for file in sorted(self.logs.iterdir()) if "migrate" not in file.name)

    def in_redis(self) -> str:
        """Every key with what it holds."""
        found: list[str] = []
        for key in self.redis.scan_iter():
            value: Any = self.redis.dump(key)
            found.append(f"{key!r} {value!r}")
        return "\n".join(found)


@pytest.fixture
def run(tmp_path: Path, servers: Any, database_url: str, provider: ScriptedProvider) -> Iterator[Run]:
    redis_url = urlunsplit(urlsplit(servers.redis_url)._replace(path=f"/{REDIS_NUMBER}"))
    with Run(tmp_path, database_url=database_url, redis_url=redis_url, provider=provider) as run:
        run.redis.flushdb()
        run.run("migrate")
        run.start_api()
        run.start("worker")
        run.start("beat")
        yield run
    run.redis.close()


def test_no_log_answer_message_or_failure_holds_a_secret_or_a_content(run: Run, provider: ScriptedProvider) -> None:
    provider.script(*[Rule(status=status, times=1) for status in (401, 500, 429, 302)], Rule(body="not_json", times=1))
    run.until(lambda: run.ask("GET", "/readyz", None).status_code == 200, what="ready")
    assert run.ask("POST", "/knowledge/collections", json={"name": "notes"}).status_code == 201
    path = f"/knowledge/collections/notes/documents/{quote(INJECTED, safe='')}"
    assert run.ask("PUT", path, json={"content": DOCUMENT, "title": INJECTED}).status_code == 202
    run.until(lambda: len(provider.requests) >= 5, what="every failure of the provider")
    in_redis = run.in_redis()
    run.until(lambda: run.ask("GET", path).json()["status"] == "ready", what="the document is found")

    provider.script(Rule(status=500))
    body = b'{"ref": "refs/heads/main"}'
    signature = {"X-Hub-Signature-256": f"sha256={hmac.new(HOOK.encode(), body, hashlib.sha256).hexdigest()}"}
    answers = [
        run.ask("GET", "/knowledge/collections", GUESS),
        run.ask("PUT", path, READER, json={"content": DOCUMENT}),
        run.ask("POST", "/knowledge/search", json={"query": QUESTION, "mode": "semantic"}),
        run.ask("POST", "/knowledge/hooks/push", None, content=body, headers=signature),
        run.ask("POST", "/knowledge/search", json={"query": QUESTION, DOCUMENT: 1}),
    ]
    assert [answer.status_code for answer in answers] == [401, 403, 503, 202, 400]
    run.ask("GET", f"/knowledge/search?q={quote(QUESTION)}&collection=notes")
    run.ask("POST", "/knowledge/hooks/push", None, content=body, headers={"X-Hub-Signature-256": "sha256=" + "0" * 64})
    passes = run.ask("GET", "/knowledge/collections/notes/passes").text
    in_redis += run.in_redis()
    run.close()

    assert provider.requests[0].texts == (DOCUMENT,)
    assert "401" in passes
    assert "kw:" in in_redis
    left = {"log": run.log(), "redis": in_redis, "answers": "\n".join(run.answers)}
    assert {(name, secret) for name, text in left.items() for secret in run.secrets if secret in text} == set()
    assert {(name, word) for name in ("log", "redis") for word in CONTENT if word in left[name]} == set()


def test_what_needs_no_token_tells_nothing_of_what_is_stored(run: Run) -> None:
    run.until(lambda: run.ask("GET", "/readyz", None).status_code == 200, what="ready")
    run.ask("POST", "/knowledge/collections", json={"name": "layoffs-2027", "title": "zanzibarine"})
    run.ask("PUT", "/knowledge/collections/layoffs-2027/documents/d1", json={"content": DOCUMENT})
    run.answers.clear()

    for page in ("/", "/healthz", "/readyz", "/openapi.json", "/docs"):
        assert run.ask("GET", page, None).status_code == 200
    assert run.ask("GET", "/metrics", None).status_code == 401
    assert run.ask("GET", "/metrics", WRITER).status_code == 401

    told = "\n".join(run.answers)
    assert [word for word in ("layoffs", "zanzibarine", "127.0.0.1:5", *run.secrets) if word in told] == []
    assert "layoffs-2027" in run.ask("GET", "/metrics", METRICS).text


def test_every_line_of_a_log_is_one_event_whatever_clients_send(run: Run) -> None:
    run.until(lambda: run.ask("GET", "/readyz", None).status_code == 200, what="ready")
    shown = quote(INJECTED, safe="")
    run.ask("GET", f"/knowledge/collections/{shown}")
    run.ask("PUT", f"/knowledge/collections/notes/documents/{shown}?{shown}={shown}", json={INJECTED: INJECTED})
    run.ask("GET", f"/{shown}", None, headers={"X-Request-ID": "a b\tc", "User-Agent": "x\ty"})
    run.ask("POST", f"/knowledge/hooks/{shown}", None)
    run.close()

    events = [json.loads(line) for line in run.log().splitlines()]
    assert {"request", "worker_ready"} <= {event["event"] for event in events}
    assert "all_is_well" not in {event["event"] for event in events}
    assert run.log().replace("\n", "").isprintable()


def test_no_secret_is_on_a_command_line(run: Run) -> None:
    lines = [Path(f"/proc/{process.pid}/cmdline").read_text() for process in run.alive]

    assert len(lines) == 3
    assert [secret for secret in run.secrets for line in lines if secret in line] == []


def test_the_database_keeps_content_and_no_secret(run: Run, provider: ScriptedProvider) -> None:
    """Whoever reads a backup reads every document, and cannot come in with it."""
    run.until(lambda: run.ask("GET", "/readyz", None).status_code == 200, what="ready")
    run.ask("POST", "/knowledge/collections", json={"name": "notes"})
    run.ask("PUT", "/knowledge/collections/notes/documents/d1", json={"content": DOCUMENT})
    run.until(lambda: provider.requests, what="the provider is asked")
    run.close()

    with psycopg.connect(run.environment["KNOWLEDGE_DATABASE_URL"]) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
        rows = [connection.execute(f'select t::text from "{table}" t').fetchall() for (table,) in tables]  # type: ignore[call-overload]
    stored = repr(rows)
    assert DOCUMENT in stored
    assert [secret for secret in run.secrets if secret in stored] == []
