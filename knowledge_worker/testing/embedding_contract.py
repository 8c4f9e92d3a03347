"""What every embedding model must keep; subclass it in a test module and give it a ``model`` fixture.

::

    class TestMyModel(EmbeddingModelContract):
        @pytest.fixture
        def model(self) -> EmbeddingModel:
            return MyModel()
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest

from knowledge_worker.errors import EmbeddingRejectedError
from knowledge_worker.ports import EmbeddingModel, Purpose, Vectors

_TIMEOUT_MS = 60_000
_SAME = 1e-3
"""A batch of another shape may be rounded in another way."""

_ODD_TEXTS = {
    "one letter": "a",
    "signs only": "?!…—",
    "chinese": "数据库在午夜备份。",
    "emoji": "🚀🚀👩‍👩‍👧",
    "no spaces": "x" * 2000,
    "a long passage": "The nightly backup copies each table to the second server. " * 34,
    "nul and a lone surrogate": "before\x00 \ud800 after",
    "tokens of tokenizers": "<s> [CLS] </s> [SEP] <unk>",
}


class EmbeddingModelContract:
    """The shared test of the :class:`~knowledge_worker.ports.EmbeddingModel` port."""

    @pytest.fixture
    def model(self) -> EmbeddingModel:
        """The model under test."""
        raise NotImplementedError

    def test_its_id_names_provider_and_model(self, model: EmbeddingModel) -> None:
        provider, _, name = model.id.partition("/")
        assert provider
        assert name

    def test_it_is_a_model(self, model: EmbeddingModel) -> None:
        assert isinstance(model, EmbeddingModel)
        assert model.max_inputs >= 1

    def test_vectors_are_float32_rows_of_unit_length(self, model: EmbeddingModel) -> None:
        vectors = _embed(model, ["a red apple", "a green pear", "the night train to Vienna"])
        assert vectors.dtype == np.float32
        assert vectors.ndim == 2
        assert vectors.shape[0] == 3
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)

    def test_its_dimensions_are_those_of_every_answer(self, model: EmbeddingModel) -> None:
        widths = {_embed(model, [text]).shape[1] for text in ("one", "two words", "three more words")}
        assert len(widths) == 1
        assert model.dimensions in (None, *widths)

    def test_rows_are_in_the_order_of_the_texts(self, model: EmbeddingModel) -> None:
        texts = [f"number {word}" for word in ("one", "two", "three", "four", "five")]
        together = _embed(model, texts)
        for row, text in zip(together, texts, strict=True):
            alone = _embed(model, [text])[0]
            assert float(row @ alone) > 1 - _SAME

    def test_a_text_has_the_same_vector_each_time(self, model: EmbeddingModel) -> None:
        first, second, third = _embed(model, ["the same words", "something else", "the same words"])
        assert float(first @ third) > 1 - _SAME
        assert float(first @ second) < 1 - _SAME

    def test_it_takes_as_many_texts_as_it_says(self, model: EmbeddingModel) -> None:
        count = min(model.max_inputs, 64)
        assert _embed(model, [f"text {number}" for number in range(count)]).shape[0] == count

    def test_a_query_has_the_dimensions_of_a_document(self, model: EmbeddingModel) -> None:
        document = _embed(model, ["the train leaves at nine"])
        query = _embed(model, ["the train leaves at nine"], purpose="query")
        assert query.shape == document.shape
        assert float(query[0] @ document[0]) > 0.5

    def test_it_leaves_the_texts_alone(self, model: EmbeddingModel) -> None:
        texts = ["one", "two"]
        _embed(model, texts)
        assert texts == ["one", "two"]

    @pytest.mark.parametrize("text", _ODD_TEXTS.values(), ids=_ODD_TEXTS.keys())
    def test_an_odd_text_gets_a_vector_like_any_other(self, model: EmbeddingModel, text: str) -> None:
        vectors = _embed(model, [text, "an ordinary text"])
        assert np.isfinite(vectors).all()
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)

    @pytest.mark.parametrize("text", ["", " ", "\u200b\n"], ids=["empty", "space", "zero width"])
    def test_a_blank_text_never_becomes_nan(self, model: EmbeddingModel, text: str) -> None:
        """Blank text is not sent by this package; a model that gets it refuses it or answers a proper vector."""
        try:
            vectors = _embed(model, [text])
        except EmbeddingRejectedError:
            return
        assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)

    def test_threads_get_what_one_thread_gets(self, model: EmbeddingModel) -> None:
        batches = [[f"batch {batch} text {number}" for number in range(4)] for batch in range(8)]
        expected = [_embed(model, batch) for batch in batches]
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(partial(_embed, model), batches))
        for one, other in zip(found, expected, strict=True):
            assert np.allclose(one, other, atol=_SAME)


def _embed(model: EmbeddingModel, texts: Sequence[str], *, purpose: Purpose = "document") -> Vectors:
    return model.embed(texts, purpose=purpose, timeout_ms=_TIMEOUT_MS).vectors
