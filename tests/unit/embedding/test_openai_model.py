"""The client of OpenAI's protocol against a real server that behaves well, badly, or not at all."""

from __future__ import annotations

import gc
import logging
import socket
import traceback
from collections.abc import Callable

import numpy as np
import pytest

from knowledge_worker.embedding.openai import OpenAIModel
from knowledge_worker.errors import EmbeddingError, EmbeddingRejectedError, EmbeddingUnavailableError
from knowledge_worker.ports import Embeddings
from knowledge_worker.testing.hash_embedding import hash_vectors
from knowledge_worker.testing.provider import Garbage, Rule, ScriptedProvider, quota_exhausted

MakeModel = Callable[..., OpenAIModel]

KEY = "sk-test-0123456789abcdef"
TEXTS = ["a secret recipe for soup", "the second confidential passage"]

UNUSABLE: list[Garbage] = [
    "not_json", "cut_off", "no_data", "error_object", "too_few", "too_many", "mixed_dimensions",
    "nan", "zeros", "bad_base64", "bad_index", "duplicate_index",
]  # fmt: skip


def embed(model: OpenAIModel, texts: list[str] = TEXTS, *, timeout_ms: int = 30_000) -> Embeddings:
    return model.embed(texts, purpose="document", timeout_ms=timeout_ms)


def failure(model: OpenAIModel, texts: list[str] = TEXTS, *, timeout_ms: int = 30_000) -> EmbeddingError:
    with pytest.raises(EmbeddingError) as caught:
        embed(model, texts, timeout_ms=timeout_ms)
    return caught.value


class TestAnswers:
    def test_vectors_tokens_and_calls_come_back(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        answer = embed(make_model())

        assert np.allclose(answer.vectors, hash_vectors(TEXTS, 64), atol=1e-6)
        assert answer.tokens == sum(len(text.split()) for text in TEXTS)
        assert answer.calls == 1
        assert provider.requests[0].texts == tuple(TEXTS)
        assert provider.requests[0].model == "embed-1"

    def test_it_asks_for_base64(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        embed(make_model())
        assert provider.requests[0].encoding_format == "base64"

    def test_numbers_are_read_where_a_server_knows_no_base64(
        self, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from knowledge_worker.testing import provider_http

        answer_body = provider_http.answer_body
        monkeypatch.setattr(
            provider_http, "answer_body", lambda texts, **options: answer_body(texts, **{**options, "as_base64": False})
        )
        assert np.allclose(embed(make_model()).vectors, hash_vectors(TEXTS, 64), atol=1e-6)

    def test_shuffled_rows_are_put_in_order_by_their_index(
        self, provider: ScriptedProvider, make_model: MakeModel
    ) -> None:
        texts = [f"passage number {number}" for number in range(7)]
        provider.script(Rule(body="shuffled"))
        assert np.allclose(embed(make_model(), texts).vectors, hash_vectors(texts, 64), atol=1e-6)

    def test_dimensions_are_asked_for_and_expected(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        model = make_model(dimensions=32)
        assert model.dimensions == 32
        assert embed(model).vectors.shape == (2, 32)
        assert provider.requests[0].dimensions == 32

        provider.script(Rule(body="wrong_dimensions"))
        assert "33 dimensions in place of 32" in failure(model).message

    def test_without_dimensions_none_are_asked_for(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        model = make_model()
        embed(model)
        assert model.dimensions is None
        assert provider.requests[0].dimensions is None

    def test_one_call_never_mixes_dimensions(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        provider.script(Rule(contains="second", body="wrong_dimensions"))
        problem = failure(make_model(max_inputs=1))
        assert isinstance(problem, EmbeddingUnavailableError)
        assert problem.calls == 2

    def test_nul_and_lone_surrogates_are_replaced_before_they_are_sent(
        self, provider: ScriptedProvider, make_model: MakeModel
    ) -> None:
        embed(make_model(), ["a\x00b \ud800"])
        assert provider.requests[0].texts == ("a\ufffdb \ufffd",)


class TestRequests:
    def test_many_texts_go_in_requests_of_max_inputs(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        texts = [f"passage {number}" for number in range(10)]
        answer = embed(make_model(max_inputs=4), texts)

        assert [len(request.texts) for request in provider.requests] == [4, 4, 2]
        assert answer.calls == 3
        assert answer.tokens == 20
        assert np.allclose(answer.vectors, hash_vectors(texts, 64), atol=1e-6)

    def test_requests_stay_below_the_token_limit(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        texts = ["word " * 100] * 5
        embed(make_model(max_request_tokens=250), texts)
        assert [len(request.texts) for request in provider.requests] == [2, 2, 1]

    def test_a_text_over_the_input_limit_is_refused_without_a_call(
        self, provider: ScriptedProvider, make_model: MakeModel
    ) -> None:
        problem = failure(make_model(max_input_tokens=100), ["short", "long " * 200])
        assert isinstance(problem, EmbeddingRejectedError)
        assert problem.message == "A passage of 1000 characters is about 202 tokens; acme/embed-1 reads at most 100."
        assert problem.calls == 0
        assert provider.requests == ()

    def test_a_text_within_the_limit_is_sent_whole(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        embed(make_model(max_input_tokens=100), ["short " * 40])
        assert provider.requests[0].texts == ("short " * 40,)

    def test_the_key_is_sent_when_there_is_one(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        embed(make_model())
        embed(make_model(key=None))
        assert [request.authorized for request in provider.requests] == [True, False]

    def test_the_environment_of_another_account_is_not_used(
        self, provider: ScriptedProvider, make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-of-somebody-else")
        monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
        embed(make_model(key=None))
        assert [request.authorized for request in provider.requests] == [False]

    def test_a_failure_is_not_tried_again(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        provider.script(Rule(status=503))
        failure(make_model())
        assert len(provider.requests) == 1


class TestRefusals:
    @pytest.mark.parametrize("status", [400, 413, 422])
    def test_a_refused_text_is_rejected(self, provider: ScriptedProvider, make_model: MakeModel, status: int) -> None:
        provider.script(Rule(status=status, contains="secret", code="context_length_exceeded"))
        problem = failure(make_model())
        assert isinstance(problem, EmbeddingRejectedError)
        assert f"({status} context_length_exceeded, request req_test)" in problem.message
        assert problem.calls == 1

    def test_a_refusal_counts_the_calls_before_it(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        provider.script(Rule(status=400, contains="second"))
        problem = failure(make_model(max_inputs=1))
        assert isinstance(problem, EmbeddingRejectedError)
        assert problem.calls == 2

    @pytest.mark.parametrize("status", [401, 403, 404, 408, 409, 429, 500, 502, 503, 529])
    def test_any_other_status_is_no_answer(
        self, provider: ScriptedProvider, make_model: MakeModel, status: int
    ) -> None:
        provider.script(Rule(status=status, times=1))
        problem = failure(make_model())
        assert isinstance(problem, EmbeddingUnavailableError)
        assert f"answered {status}" in problem.message
        assert problem.retry_after_ms is None

    def test_a_wrong_key_is_said_with_its_variable(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        provider.script(Rule(status=401, code="invalid_api_key"))
        assert failure(make_model()).message == (
            'Embedding provider "acme" answered 401 invalid_api_key, request req_test: check the key in ACME_API_KEY.'
        )

    @pytest.mark.parametrize(
        ("headers", "expected"),
        [({"Retry-After": "7"}, 7_000), ({"retry-after-ms": "1500"}, 1_500), ({"Retry-After": "soon"}, None)],
    )
    @pytest.mark.parametrize("status", [429, 503])
    def test_the_wish_of_the_provider_is_handed_on(
        self,
        provider: ScriptedProvider,
        make_model: MakeModel,
        headers: dict[str, str],
        expected: int | None,
        status: int,
    ) -> None:
        provider.script(Rule(status=status, headers=headers))
        problem = failure(make_model())
        assert isinstance(problem, EmbeddingUnavailableError)
        assert problem.retry_after_ms == expected

    def test_exhausted_credit_says_so_and_waits_long(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        provider.script(quota_exhausted(times=1), Rule(status=402, headers={"Retry-After": "3600"}))
        model = make_model(quota_retry_ms=900_000)
        first, second = failure(model), failure(model)
        assert isinstance(first, EmbeddingUnavailableError)
        assert isinstance(second, EmbeddingUnavailableError)
        assert "credit is exhausted" in first.message
        assert first.retry_after_ms == 900_000
        assert second.retry_after_ms == 3_600_000

    @pytest.mark.parametrize("body", UNUSABLE)
    def test_an_unusable_answer_is_no_answer(
        self, provider: ScriptedProvider, make_model: MakeModel, body: Garbage
    ) -> None:
        provider.script(Rule(body=body, times=1))
        model = make_model()
        assert isinstance(failure(model), EmbeddingUnavailableError)
        assert embed(model).vectors.shape == (2, 64)


class TestSilence:
    @pytest.mark.parametrize(
        "rule",
        [Rule(hold=True), Rule(trickle_s=0.05), Rule(trickle_s=0.05, status=500), Rule(delay_s=60.0)],
        ids=["never answers", "sends a byte now and then", "an error byte by byte", "is slow"],
    )
    def test_a_call_ends_at_its_deadline(self, provider: ScriptedProvider, make_model: MakeModel, rule: Rule) -> None:
        model = make_model()
        embed(model)
        provider.script(rule)
        problem = failure(model, timeout_ms=500)
        assert isinstance(problem, EmbeddingUnavailableError)
        assert problem.message == 'Embedding provider "acme" did not answer within 0.5 s.'

    def test_the_deadline_is_for_all_requests_together(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        model = make_model(max_inputs=1)
        embed(model)
        provider.script(Rule(contains="second", hold=True))
        problem = failure(model, timeout_ms=3000)
        assert isinstance(problem, EmbeddingUnavailableError)
        assert problem.calls == 2

    def test_a_call_after_one_that_was_given_up_succeeds(
        self, provider: ScriptedProvider, make_model: MakeModel
    ) -> None:
        model = make_model()
        provider.script(Rule(hold=True))
        failure(model, timeout_ms=300)
        provider.clear_script()
        assert embed(model).calls == 1

    def test_a_server_that_is_not_there_is_said_with_its_host(self, make_model: MakeModel) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            problem = failure(make_model(base_url=f"http://127.0.0.1:{taken.getsockname()[1]}/v1"))
        assert isinstance(problem, EmbeddingUnavailableError)
        assert problem.message == 'Embedding provider "acme" cannot be reached at 127.0.0.1 (ConnectError).'

    def test_it_finds_a_server_again_that_was_restarted(self, make_model: MakeModel) -> None:
        with ScriptedProvider() as first:
            model = make_model(base_url=first.base_url)
            embed(model)
        failure(model)
        with ScriptedProvider(port=first.port):
            assert embed(model).calls == 1

    def test_a_model_that_nobody_uses_closes_its_connections(self, provider: ScriptedProvider) -> None:
        # Without closing, the event loop's transports warn when they are collected, and warnings are errors here.
        embed(OpenAIModel(provider="acme", model="m", base_url=provider.base_url, key=None))
        gc.collect()
        provider.wait_for_connections(0)


class TestSecrets:
    RULES = (
        *[Rule(status=status, code="x y z", type="secret") for status in (400, 401, 402, 403, 404, 413, 422, 429, 500)],
        *[Rule(body=body) for body in UNUSABLE],
        Rule(hold=True),
    )

    @pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.status}-{rule.body}-{rule.hold}")
    def test_no_failure_shows_input_or_key(
        self, provider: ScriptedProvider, make_model: MakeModel, caplog: pytest.LogCaptureFixture, rule: Rule
    ) -> None:
        model = make_model()
        provider.script(rule)
        with caplog.at_level(logging.DEBUG):
            problem = failure(model, timeout_ms=3_000 if not rule.hold else 300)

        told = "".join(traceback.format_exception(problem)) + repr(problem) + repr(model) + caplog.text
        for word in ("secret recipe", "confidential", KEY):
            assert word not in told
        assert problem.__context__ is None
        assert "\n" not in problem.message

    @pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
    def test_no_redirect_carries_texts_or_key_to_another_address(
        self, provider: ScriptedProvider, make_model: MakeModel, status: int
    ) -> None:
        with ScriptedProvider() as other:
            provider.script(Rule(status=status, headers={"Location": f"http://localhost:{other.port}/v1/embeddings"}))
            problem = failure(make_model())

            assert other.requests == ()
        assert isinstance(problem, EmbeddingUnavailableError)
        assert problem.message == (
            f'Embedding provider "acme" answered {status}, request req_test: it sends callers elsewhere, and texts go '
            "only to the address that is set; correct the address."
        )

    def test_a_request_id_is_shown_only_if_it_is_one(self, provider: ScriptedProvider, make_model: MakeModel) -> None:
        provider.script(Rule(status=500, headers={"x-request-id": "a secret recipe for soup"}))
        assert failure(make_model()).message == 'Embedding provider "acme" answered 500.'

    def test_a_success_logs_neither_input_nor_key(
        self, make_model: MakeModel, caplog: pytest.LogCaptureFixture
    ) -> None:
        with caplog.at_level(logging.DEBUG):
            embed(make_model())
        for word in ("secret recipe", "confidential", KEY):
            assert word not in caplog.text
