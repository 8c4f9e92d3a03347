"""``local/wordllama``: the mean of one stored vector a token; no network, no window, hundreds of passages a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from knowledge_worker.domain.document import storable
from knowledge_worker.embedding.checking import checked_vectors
from knowledge_worker.embedding.extras import package_file, require
from knowledge_worker.embedding.per_process import PerProcess
from knowledge_worker.errors import ConfigurationError, EmbeddingRejectedError
from knowledge_worker.ports import Embeddings, Purpose

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_DIMENSIONS = 256


@dataclass(frozen=True, slots=True)
class _Loaded:
    tokenizer: Tokenizer
    table: NDArray[np.float16]


class WordLlamaModel:
    """WordLlama's static vectors (256 dimensions, 32 000 tokens), read from the files of its wheel.

    Its own class is not used: importing it sets up the root logger and takes 0.4 s and 45 MB more, and it looks for
    its tokenizer in a folder that the wheel does not have, and then on the network.
    """

    id = "local/wordllama"
    dimensions = _DIMENSIONS
    max_inputs = 2048

    def __init__(self) -> None:
        require("local", "wordllama", "tokenizers", "safetensors", model=self.id)
        self._loaded = PerProcess(self._load)

    def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout_ms: int) -> Embeddings:  # noqa: ARG002
        """Embed ``texts``; a batch of 64 takes a tenth of a second, so ``timeout_ms`` is not looked at.

        Raises:
            EmbeddingRejectedError: a text holds nothing that could be embedded.
        """
        loaded = self._loaded.get()
        encodings = loaded.tokenizer.encode_batch_fast([storable(text) for text in texts], add_special_tokens=False)
        rows = np.zeros((len(texts), _DIMENSIONS), dtype=np.float32)
        tokens = 0
        for row, encoding in zip(rows, encodings, strict=True):
            ids = encoding.ids
            tokens += len(ids)
            if ids:
                loaded.table[ids].mean(axis=0, dtype=np.float32, out=row)
            if not row.any():
                raise EmbeddingRejectedError("A passage holds nothing that could be embedded.", calls=0)
        vectors = checked_vectors(rows, count=len(texts), dimensions=_DIMENSIONS, model=self.id, calls=0)
        return Embeddings(vectors=vectors, tokens=tokens, calls=0)

    def _load(self) -> _Loaded:
        from safetensors.numpy import load_file
        from tokenizers import Tokenizer

        tokens = package_file(
            "wordllama", "tokenizers", "l2_supercat_tokenizer_config.json", model=self.id, extra="local"
        )
        weights = package_file("wordllama", "weights", "l2_supercat_256.safetensors", model=self.id, extra="local")
        tokenizer = Tokenizer.from_file(str(tokens))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        table = load_file(weights)["embedding.weight"]
        if table.shape[1] != _DIMENSIONS or table.shape[0] < tokenizer.get_vocab_size():
            raise ConfigurationError(
                f'Model "{self.id}" has other weights than expected: reinstall "knowledge-worker[local]".'
            )
        return _Loaded(tokenizer, table)
