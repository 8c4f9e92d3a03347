"""The provider for tests counts and scripts what it says, in this process and as one of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from typing import Any

import numpy as np
import pytest
from openai import OpenAI

from knowledge_worker.testing.hash_embedding import HashEmbedding, hash_vectors
from knowledge_worker.testing.provider import Rule, ScriptedProvider


def post(url: str, body: object) -> tuple[int, Any]:
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def ask(provider: ScriptedProvider, *texts: str) -> int:
    return post(f"{provider.base_url}/embeddings", {"model": "m", "input": list(texts)})[0]


def test_the_client_of_openai_understands_it(provider: ScriptedProvider) -> None:
    with OpenAI(api_key="k", base_url=provider.base_url, max_retries=0) as client:
        whole = client.embeddings.create(model="m", input=["one two", "three"])
        plain = client.embeddings.create(model="m", input="one two", encoding_format="float", dimensions=16)
        assert [model.id for model in client.models.list()] == ["test-embedding"]
    assert np.allclose([entry.embedding for entry in whole.data], hash_vectors(["one two", "three"], 64), atol=1e-6)
    assert len(plain.data[0].embedding) == 16
    assert (whole.usage.prompt_tokens, whole.usage.total_tokens) == (3, 3)


def test_it_counts_what_it_is_sent_and_what_it_answered(provider: ScriptedProvider) -> None:
    provider.script(Rule(status=500, times=1))
    assert [ask(provider, "a", "b"), ask(provider, "a")] == [500, 200]
    assert provider.count_of("a") == 2
    assert provider.embedded == {"a": 1}
    assert [request.status for request in provider.requests] == [500, 200]


def test_rules_are_used_in_order_and_up(provider: ScriptedProvider) -> None:
    provider.script(Rule(status=400, contains="bad"), Rule(status=429, times=2))
    assert [ask(provider, text) for text in ("x", "bad", "x", "x")] == [429, 400, 429, 200]
    provider.clear_script()
    assert ask(provider, "bad") == 200


def test_an_answer_is_held_until_its_release(provider: ScriptedProvider) -> None:
    provider.script(Rule(hold=True))
    statuses: list[int] = []
    threads = [threading.Thread(target=lambda: statuses.append(ask(provider, "x"))) for _ in range(3)]
    for thread in threads:
        thread.start()
    provider.wait_for_requests(3)
    assert [request.status for request in provider.requests] == [0, 0, 0]
    provider.release()
    for thread in threads:
        thread.join()
    assert statuses == [200, 200, 200]
    assert provider.max_parallel == 3


def test_closing_lets_nobody_wait() -> None:
    failures: list[type[BaseException]] = []

    def wait(server: ScriptedProvider) -> None:
        try:
            ask(server, "x")
        except OSError as error:
            failures.append(type(error))

    with ScriptedProvider() as server:
        server.script(Rule(hold=True))
        thread = threading.Thread(target=wait, args=(server,))
        thread.start()
        server.wait_for_requests(1)
    thread.join(30)
    assert not thread.is_alive()


@pytest.mark.parametrize("body", [[], "text", {"input": "x"}, {"model": "m"}, {"model": "m", "input": []}])
def test_a_wrong_request_is_refused(provider: ScriptedProvider, body: object) -> None:
    assert post(f"{provider.base_url}/embeddings", body)[0] == 400
    assert provider.requests == ()


def test_it_runs_on_its_own_and_is_scripted_over_http() -> None:
    command = [sys.executable, "-m", "knowledge_worker.testing.provider", "--dimensions", "8"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
        assert process.stdout is not None
        try:
            base_url = process.stdout.readline().strip()
            root = base_url.removesuffix("/v1")
            assert post(f"{root}/_script", [{"status": 429, "times": 1, "headers": {"Retry-After": "1"}}]) == (200, {})
            assert post(f"{root}/_script", {"statuss": 429})[0] == 400
            embed = {"model": "m", "input": "hello"}
            assert post(f"{base_url}/embeddings", embed)[0] == 429
            status, answer = post(f"{base_url}/embeddings", embed)
            assert status == 200
            assert len(answer["data"][0]["embedding"]) == 8
            with urllib.request.urlopen(f"{root}/_state", timeout=30) as state:
                counted = json.load(state)
            assert counted["texts"] == {"hello": 2}
            assert counted["embedded"] == {"hello": 1}
            assert [request["status"] for request in counted["requests"]] == [429, 200]
            assert post(f"{root}/_reset", None)[0] == 200
            with urllib.request.urlopen(f"{root}/_state", timeout=30) as state:
                assert json.load(state)["requests"] == []
        finally:
            process.terminate()
        assert process.wait(30) == 0


def test_hashed_words_rank_by_the_words_in_common() -> None:
    question, same, half, none = hash_vectors(
        ["red apple tree", "apple, Red TREE", "red apple pie", "night train"], 256
    )
    assert question @ same == pytest.approx(1.0)
    assert question @ same > question @ half > question @ none
    assert (HashEmbedding(8).dimensions, HashEmbedding(id="test/other").id) == (8, "test/other")


def test_hashed_words_are_the_same_in_every_process() -> None:
    # A change here makes every stored vector of a running test system wrong.
    assert np.sign(hash_vectors(["apple"], 16))[0].astype(int).tolist() == [
        1,
        -1,
        -1,
        1,
        -1,
        1,
        1,
        1,
        1,
        1,
        1,
        -1,
        -1,
        -1,
        1,
        1,
    ]
