"""``fastembed/<model>``: the ONNX models of the fastembed package, for machines that may download them once."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from knowledge_worker.domain.document import storable
from knowledge_worker.embedding.checking import checked_vectors
from knowledge_worker.embedding.extras import keep_onnxruntime_quiet, require
from knowledge_worker.embedding.per_process import PerProcess
from knowledge_worker.embedding.windows import mean_of_windows, windows
from knowledge_worker.errors import ConfigurationError, EmbeddingRejectedError, EmbeddingUnavailableError
from knowledge_worker.ports import Embeddings, Purpose

if TYPE_CHECKING:
    from fastembed import TextEmbedding
    from tokenizers import Tokenizer

_BATCH = 8
_MARK_TOKENS = 24
"""Kept free in each window for the ends and for the words some models want before a text."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    model: TextEmbedding
    tokenizer: Tokenizer
    window: int | None
    lock: threading.Lock


class FastEmbedModel:
    """A model of fastembed's list.

    Args:
        name: as fastembed writes it, such as ``BAAI/bge-small-en-v1.5``.
        path: a folder that holds its files, so that nothing is downloaded; None uses fastembed's cache.

    Raises:
        ConfigurationError: the extra is missing, or fastembed has no such model.
    """

    # So few that a call ends within its time also on a slow machine.
    max_inputs = 16

    def __init__(self, name: str, *, path: str | None = None) -> None:
        self._name = name
        self._path = path
        require("fastembed", "fastembed", model=self.id)
        keep_onnxruntime_quiet()
        from fastembed import TextEmbedding

        known = {str(model["model"]): int(model["dim"]) for model in TextEmbedding.list_supported_models()}
        if name not in known:
            close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f" Did you mean {' or '.join(close)}?" if close else f" It has {', '.join(sorted(known))}."
            raise ConfigurationError(f'fastembed has no model "{name}".{hint}')
        self._dimensions = known[name]
        self._loaded = PerProcess(self._load)

    def __repr__(self) -> str:
        return f"FastEmbedModel({self._name!r})"

    @property
    def id(self) -> str:
        """``fastembed/<model>``."""
        return f"fastembed/{self._name}"

    @property
    def dimensions(self) -> int:
        """Of every vector."""
        return self._dimensions

    def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout_ms: int) -> Embeddings:  # noqa: ARG002
        """Embed ``texts``; the first call of a process loads the model, and downloads it where it has to.

        Raises:
            EmbeddingRejectedError: a text holds nothing that could be embedded.
            EmbeddingUnavailableError: the model is not in the cache and cannot be downloaded.
        """
        loaded = self._loaded.get()
        parts: list[str] = []
        lengths: list[int] = []
        owners: list[int] = []
        for owner, text in enumerate(map(storable, texts)):
            encoding = loaded.tokenizer.encode(text, add_special_tokens=False)
            if not encoding.ids:
                raise EmbeddingRejectedError("A passage holds nothing that could be embedded.", calls=0)
            for start, end in windows(encoding.word_ids, loaded.window or len(encoding.ids)):
                parts.append(text[encoding.offsets[start][0] : encoding.offsets[end - 1][1]])
                lengths.append(end - start)
                owners.append(owner)
        with loaded.lock:
            embed = loaded.model.query_embed if purpose == "query" else loaded.model.passage_embed
            rows = list(embed(parts, batch_size=_BATCH))
        unit = checked_vectors(rows, count=len(parts), dimensions=self._dimensions, model=self.id, calls=0)
        means = mean_of_windows(unit, lengths, owners, count=len(texts))
        vectors = checked_vectors(means, count=len(texts), dimensions=self._dimensions, model=self.id, calls=0)
        return Embeddings(vectors=vectors, tokens=sum(lengths), calls=0)

    def _load(self) -> _Loaded:
        from fastembed import TextEmbedding
        from tokenizers import Tokenizer

        model: Any = None
        try:
            model = TextEmbedding(self._name, specific_model_path=self._path)
        except Exception:  # noqa: BLE001, S110 - said below, without the library's pages of text as its context
            pass
        if model is None:
            raise EmbeddingUnavailableError(
                f'Model "{self.id}" is not in the cache and could not be downloaded: without a network, put its files '
                "into the folder that FASTEMBED_CACHE_PATH names.",
                calls=0,
            )
        inner = model.model.tokenizer
        truncation = inner.truncation
        window = None if truncation is None else max(int(truncation["max_length"]) - _MARK_TOKENS, 8)
        # A copy: the model's own goes on cutting, which by then finds nothing to cut.
        tokenizer = Tokenizer.from_str(inner.to_str())
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return _Loaded(model, tokenizer, window, threading.Lock())
