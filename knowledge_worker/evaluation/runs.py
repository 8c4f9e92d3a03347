"""Ask a collection every question and score what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from knowledge_worker.domain.collection import NO_MODEL, Collection
from knowledge_worker.domain.ranking import Fusion, SearchMode
from knowledge_worker.errors import (
    CollectionNotReadyError,
    DocumentNotFoundError,
    EmbeddingUnavailableError,
    InvalidInputError,
)
from knowledge_worker.evaluation.metrics import DEPTH, Scores, score
from knowledge_worker.evaluation.questions import QuestionSet, some
from knowledge_worker.knowledge import Knowledge
from knowledge_worker.search.fusion import fusion_of

MODES = tuple(SearchMode)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One way to search one collection, and how good it is.

    Attributes:
        collection: what was searched, as it was before the first question.
        fusion: how a hybrid search ranked; None for the others.
        scores: question id → scores.
    """

    collection: Collection
    mode: SearchMode
    fusion: Fusion | None
    scores: Mapping[str, Scores]


def evaluate(
    knowledge: Knowledge,
    collection: str,
    questions: QuestionSet,
    *,
    modes: Sequence[SearchMode | str] | None = None,
    allow_missing: bool = False,
    on_question: Callable[[int], None] | None = None,
) -> list[Run]:
    """Ask every question in every mode; a document ranks where its best passage does.

    Args:
        collection: its name.
        modes: None for all that the collection can be searched in.
        allow_missing: relevant documents that the collection does not have count as not found, instead of an error.
        on_question: called after each search with the number of all searches.

    Returns:
        A run a mode, in their order.

    Raises:
        CollectionNotFoundError, NotSearchableError: it cannot be searched (in one of the modes).
        InvalidInputError: relevant documents are missing; names some of them.
        EmbeddingError: a question did not become a vector: figures of words alone would pass for those of both.
    """
    found = knowledge.collection(collection)
    if found.serving is None:
        raise CollectionNotReadyError(collection)
    wanted = tuple(SearchMode(mode) for mode in modes) if modes else _modes_of(found)
    if not allow_missing:
        check_documents(knowledge, collection, questions)
    scores: dict[SearchMode, dict[str, Scores]] = {mode: {} for mode in wanted}
    for question in questions.questions:
        for mode in wanted:  # one after another, so that the question is embedded once
            ranking = _ranking(knowledge, collection, question.text, mode)
            scores[mode][question.id] = score(ranking, question.relevant)
            if on_question is not None:
                on_question(len(wanted) * len(questions.questions))
    return [
        Run(
            collection=found,
            mode=mode,
            fusion=fusion_of(found.serving.model, knowledge.settings) if mode is SearchMode.HYBRID else None,
            scores=scores[mode],
        )
        for mode in wanted
    ]


def check_documents(knowledge: Knowledge, collection: str, questions: QuestionSet) -> None:
    """Check that the collection has every relevant document.

    Raises:
        InvalidInputError: it lacks some; names a few of them and of those that it has.
    """
    missing: list[str] = []
    for document in sorted(questions.documents):
        try:
            knowledge.get_document(collection, document)
        except (DocumentNotFoundError, InvalidInputError):
            missing.append(document)
    if not missing:
        return
    has = [one.id for one in knowledge.list_documents(collection, limit=3).documents]
    raise InvalidInputError(
        f'{len(missing)} of {len(questions.documents)} relevant documents are not in "{collection}": {some(missing)}. '
        + (f"Its ids look like {some(has)}. " if has else "It has no documents. ")
        + "Correct the ids, or count the missing ones as not found (--allow-missing).",
        field="questions",
    )


def _modes_of(collection: Collection) -> tuple[SearchMode, ...]:
    serving = collection.serving
    assert serving is not None
    if serving.model == NO_MODEL:
        return (SearchMode.LEXICAL,)
    return MODES if serving.language else (SearchMode.SEMANTIC,)


def _ranking(knowledge: Knowledge, collection: str, query: str, mode: SearchMode) -> list[str]:
    """Documents, best first: with one passage of each the ranking of passages is one of documents."""
    result = knowledge.search(query, collections=collection, top_k=DEPTH, per_document=1, mode=mode)
    if result.degraded:
        raise EmbeddingUnavailableError(f"The question became no vector: {result.degraded}", calls=0)
    return list(dict.fromkeys(match.document for match in result.matches))
