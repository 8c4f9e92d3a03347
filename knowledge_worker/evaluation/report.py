"""What an evaluation found, as it is shown, stored and compared with a later one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from knowledge_worker.domain.ranking import Fusion, FusionMethod, SearchMode
from knowledge_worker.errors import InvalidInputError
from knowledge_worker.evaluation.metrics import DEPTH, Scores
from knowledge_worker.evaluation.questions import QuestionSet
from knowledge_worker.evaluation.runs import Run
from knowledge_worker.evaluation.statistics import (
    CONFIDENCE,
    RESAMPLES,
    SEED,
    Estimate,
    PairedDifference,
    estimate,
    paired_difference,
)

FORMAT: Final = 1


class _View(BaseModel):
    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)


class RunReport(_View):
    """One way to search one collection.

    Attributes:
        collection: its name; of a corpus that was indexed for the evaluation, the name of its folder.
        label: what tells it from others in the table: the collection, and the model where several are compared.
        variant: the hybrid way that was asked for (``rrf`` or a weight); None for what the settings say.
        fusion: how a hybrid search ranked.
        per_question: question id → nDCG, recall and reciprocal rank.
    """

    label: str
    collection: str
    model: str
    chunker: str
    language: str
    generation: int
    documents: int
    passages: int
    mode: SearchMode
    variant: str | None
    fusion: str | None
    ndcg: Estimate
    recall: Estimate
    mrr: Estimate
    per_question: dict[str, Scores]

    @property
    def shown_mode(self) -> str:
        """The mode, and for a hybrid search its fusion: ``hybrid rrf``, ``hybrid 0.4`` with the weight of meaning."""
        return self.mode if self.fusion is None else f"{self.mode} {self.fusion.removeprefix('weight ')}"


class DifferenceReport(_View):
    """What one run gains over another in nDCG, over the questions that both have.

    Attributes:
        run, against: as shown.
        questions: that both have.
    """

    run: str
    against: str
    questions: int
    ndcg: PairedDifference


class Report(_View):
    """An evaluation.

    Attributes:
        format: of this report as JSON.
        depth: documents of a ranking that count.
        confidence, resamples, seed: of the intervals and tests.
    """

    format: Literal[1] = FORMAT
    depth: int = DEPTH
    confidence: float = CONFIDENCE
    resamples: int = RESAMPLES
    seed: int = SEED
    questions: int
    notes: tuple[str, ...]
    runs: tuple[RunReport, ...]
    differences: tuple[DifferenceReport, ...] = ()


def run_report(run: Run, *, label: str, collection: str, variant: str | None, seed: int) -> RunReport:
    """A run with its means and their intervals."""
    serving = run.collection.serving
    assert serving is not None
    ndcg, recall, mrr = (estimate(values, seed=seed) for values in np.array(list(run.scores.values())).T)
    return RunReport(
        label=label,
        collection=collection,
        model=serving.model,
        chunker=serving.chunker,
        language=serving.language,
        generation=serving.number,
        documents=run.collection.documents.total,
        passages=run.collection.chunks,
        mode=run.mode,
        variant=variant,
        fusion=None if run.fusion is None else _shown_fusion(run.fusion),
        ndcg=ndcg,
        recall=recall,
        mrr=mrr,
        per_question=dict(run.scores),
    )


def notes_of(run: Run) -> list[str]:
    """What of the collection's state a reader of its figures should know."""
    found, notes = run.collection, list[str]()
    if found.documents.pending:
        notes.append(f"{found.name}: {found.documents.pending} documents are not embedded yet and may not be found.")
    if found.documents.failed:
        notes.append(f"{found.name}: {found.documents.failed} documents failed and are not found by meaning.")
    if found.building is not None:
        notes.append(
            f"{found.name} is being embedded again ({found.building.model}, {found.building.chunker}); "
            "the figures are of what is served until that is complete."
        )
    return notes


def report_of(
    questions: QuestionSet,
    runs: Sequence[RunReport],
    *,
    notes: Sequence[str] = (),
    earlier: Report | None = None,
    seed: int = SEED,
) -> Report:
    """Put runs together, with what can be said of their differences.

    Args:
        runs: those of the first collection or model first; others are compared with it.
        earlier: an evaluation that these runs are compared with, mode by mode.

    Raises:
        InvalidInputError: the earlier one shares no question or no mode with these runs.
    """
    pairs = [*_within(runs), *_between(runs)]
    if earlier is not None:
        pairs += _since(runs, earlier)
    differences = [
        _difference(one, other, names=names, seed=seed)
        for one, other, names in pairs
        if one.per_question.keys() & other.per_question.keys()
    ]
    if len(differences) < len(pairs):
        raise InvalidInputError(
            "The earlier evaluation shares no question id with this one: it is of other questions.", field="compare"
        )
    return Report(
        questions=len(questions.questions),
        notes=(*questions.notes, *notes),
        runs=tuple(runs),
        differences=tuple(differences),
        seed=seed,
    )


def read_report(path: Path) -> Report:
    """An evaluation that was saved before.

    Raises:
        InvalidInputError: the file cannot be read or holds something else.
    """
    try:
        return Report.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.", field="compare") from error
    except ValidationError:
        raise InvalidInputError(
            f"{path} is no evaluation: save one with `knowledge-worker eval … --save {path}`.", field="compare"
        ) from None


_Pair = tuple[RunReport, RunReport, tuple[str, str]]


def _within(runs: Sequence[RunReport]) -> Iterator[_Pair]:
    """Each hybrid run against the legs of the same collection."""
    for one in runs:
        for other in runs:
            if one.label == other.label and one.mode is SearchMode.HYBRID and other.mode is not SearchMode.HYBRID:
                yield one, other, (_name(one, runs), other.mode)


def _between(runs: Sequence[RunReport]) -> Iterator[_Pair]:
    """Each run against the one of the first collection that is searched the same way."""
    for one in runs:
        for other in runs:
            if other.label == runs[0].label != one.label and (one.mode, one.variant) == (other.mode, other.variant):
                yield one, other, (_name(one, runs), other.label)


def _since(runs: Sequence[RunReport], earlier: Report) -> Iterator[_Pair]:
    """Each run against the earlier one of the same way; of the same label where there are several."""
    several = len({one.label for one in earlier.runs}) > 1
    found = False
    for one in runs:
        for other in earlier.runs:
            if (one.mode, one.variant) == (other.mode, other.variant) and (not several or one.label == other.label):
                found = True
                yield one, other, (_name(one, runs), f"earlier ({other.model}, {other.chunker})")
    if not found:
        raise InvalidInputError(
            "The earlier evaluation has no run of the same mode"
            + (" and collection" if several else "")
            + ": evaluate the same modes again.",
            field="compare",
        )


def _name(run: RunReport, runs: Sequence[RunReport]) -> str:
    several = len({one.label for one in runs}) > 1
    return f"{run.label}, {run.shown_mode}" if several else run.shown_mode


def _difference(one: RunReport, other: RunReport, *, names: tuple[str, str], seed: int) -> DifferenceReport:
    common = sorted(one.per_question.keys() & other.per_question.keys())
    return DifferenceReport(
        run=names[0],
        against=names[1],
        questions=len(common),
        ndcg=paired_difference(_ndcgs(one, common), _ndcgs(other, common), seed=seed),
    )


def _ndcgs(run: RunReport, questions: Sequence[str]) -> NDArray[np.float64]:
    return np.array([run.per_question[one].ndcg for one in questions])


def _shown_fusion(fusion: Fusion) -> str:
    return "rrf" if fusion.method is FusionMethod.RRF else f"weight {fusion.weight:g}"
