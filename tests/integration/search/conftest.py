"""Collections with known texts, and what a search that looks at every passage would answer."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from knowledge_worker import Knowledge, KnowledgeCollection, SearchResult, define_knowledge_source
from knowledge_worker.testing.hash_embedding import hash_vectors

from ..managed.conftest import Make, make, providers  # noqa: F401 - fixtures

DIMENSIONS = 64
"""Of the scripted provider."""

Texts = Mapping[str, str]


def declared(
    name: str, documents: Mapping[str, str | Mapping[str, Any]], *, model: str | None = "fake/model-a", **options: Any
) -> KnowledgeCollection:
    """A collection of documents that stay as they are."""
    items = [
        {"id": identifier, **(one if isinstance(one, Mapping) else {"content": one})}
        for identifier, one in documents.items()
    ]
    source = define_knowledge_source(documents=lambda: iter(items))
    return KnowledgeCollection(name, model=model, sources=[source], **options)


def indexed(make: Callable[..., Knowledge], *collections: KnowledgeCollection, **settings: Any) -> Knowledge:  # noqa: F811
    """A process whose collections went through a pass."""
    knowledge = make(*collections, **settings)
    knowledge.node_started(["sync"])
    for one in collections:
        assert knowledge.run_pass(one.name) == "ok"
    return knowledge


def cosines(query: str, texts: Texts) -> dict[str, float]:
    """The similarity of each text to the query, from vectors as they are stored: in half precision."""
    stored = hash_vectors(list(texts.values()), DIMENSIONS).astype(np.float16).astype(np.float64)
    asked = hash_vectors([query], DIMENSIONS)[0].astype(np.float16).astype(np.float64)
    similar = stored @ asked / (np.linalg.norm(stored, axis=1) * np.linalg.norm(asked))
    return dict(zip(texts, similar.tolist(), strict=True))


def bm25(query: str, texts: Texts) -> dict[str, float]:
    """BM25 by its definition (k1 1.2, b 0.75, the idf of Lucene), of the texts that have a word of the query."""
    words = {one: Counter(re.findall(r"\w+", text.lower())) for one, text in texts.items()}
    mean = sum(one.total() for one in words.values()) / len(words)
    scores: dict[str, float] = {}
    for word in set(re.findall(r"\w+", query.lower())):
        having = [one for one, counts in words.items() if counts[word]]
        idf = math.log(1 + (len(words) - len(having) + 0.5) / (len(having) + 0.5))
        for one in having:
            frequency, length = words[one][word], words[one].total()
            gain = frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length / mean))
            scores[one] = scores.get(one, 0.0) + idf * gain
    return scores


def ranked(scores: Mapping[str, float]) -> list[str]:
    """Names, best first."""
    return sorted(scores, key=lambda one: (-scores[one], one))


def names(result: SearchResult) -> list[str]:
    """The documents of a result, best first."""
    return [match.document for match in result.matches]


VOCABULARY = re.findall(r"\w+", "apple pear plum cherry fig river lake sea hill valley red green blue slow fast")


def made_texts(count: int, *, seed: int = 1, longest: int = 30) -> dict[str, str]:
    """Documents ``d000`` … of one passage each, whose words and lengths differ."""
    random = np.random.default_rng(seed)
    weights = 1 / np.arange(1, len(VOCABULARY) + 1)
    return {
        f"d{n:03}": " ".join(
            random.choice(VOCABULARY, size=int(random.integers(3, longest)), p=weights / weights.sum())
        )
        + f" number{n}"
        for n in range(count)
    }


def scaled(scores: Mapping[str, float], kept: Sequence[str]) -> dict[str, float]:
    """Scores of those kept, from 0 for the least to 1 for the best."""
    least, best = min(scores[one] for one in kept), max(scores[one] for one in kept)
    return {one: 1.0 if best == least else (scores[one] - least) / (best - least) for one in kept}
