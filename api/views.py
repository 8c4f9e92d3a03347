"""The JSON we answer with: camelCase, times in ISO 8601 and UTC, absent where there is nothing (rules 55, 59)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from pydantic.json_schema import SkipJsonSchema

from knowledge_worker.domain.collection import Collection, CollectionKind, CollectionStatus
from knowledge_worker.domain.match import Explanation, Match, SearchResult
from knowledge_worker.domain.passes import PassOutcome, PassRecord, PassTrigger
from knowledge_worker.domain.plan import Plan
from knowledge_worker.domain.ranking import ScoreKind, SearchMode

from . import examples
from .examples import shown

Value = TypeVar("Value")


def _nothing(value: object) -> bool:
    return value is None


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


Maybe: TypeAlias = Annotated[Value | SkipJsonSchema[None], Field(exclude_if=_nothing)]
"""A field that is left out of the answer when it is None, and never null."""

Time: TypeAlias = Annotated[datetime, AfterValidator(_utc)]


class View(BaseModel):
    """What all views share."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class DocumentCountsView(View):
    """Documents of a collection by status."""

    total: int
    pending: int
    ready: int
    failed: int


class CollectionView(View):
    """A collection."""

    model_config = ConfigDict(json_schema_extra=shown(examples.COLLECTION))

    name: str
    kind: CollectionKind
    title: Maybe[str] = None
    description: Maybe[str] = None
    trusted: bool
    status: CollectionStatus
    model: str = Field(description="That made the vectors being served; the declared one until there are any.")
    language: str = Field(description="That the words are taken in.")
    generation: Maybe[int] = Field(default=None, description="The number of the generation being served.")
    error: Maybe[str] = Field(default=None, description="Why the newest pass failed.")
    failures: Maybe[int] = Field(default=None, description="Failed passes in a row.")
    failing_since: Maybe[Time] = Field(default=None, description="When the first of those failures was.")
    retry_at: Maybe[Time] = Field(
        default=None, description="Nothing is tried before it; with an error and without it, until it is declared anew."
    )
    synced_at: Maybe[Time] = Field(default=None, description="End of the last successful pass.")
    updated_at: Time
    incomplete: Maybe[list[str]] = Field(default=None, description="What the newest pass could not read.")
    notice: Maybe[str] = Field(default=None, description="What waits for a person, such as held-back deletions.")
    running: bool = Field(description="Whether a worker is at it now.")
    documents: DocumentCountsView
    passages: int = Field(description="Stored chunks.")


class CollectionListView(View):
    """All collections, by name."""

    model_config = ConfigDict(json_schema_extra=shown({"data": [examples.COLLECTION]}))

    data: list[CollectionView]


class StatusView(CollectionListView):
    """All collections, and whether the service has what it needs."""

    missing: Maybe[list[str]] = None
    warnings: Maybe[list[str]] = None


class SyncView(View):
    """A sync that was accepted."""

    model_config = ConfigDict(json_schema_extra=shown({"name": "handbook"}))

    name: str


class PassCountsView(View):
    """What a pass did."""

    read: int
    added: int
    changed: int
    unchanged: int
    deleted: int
    skipped: int
    failed: int
    embedded: int = Field(description="Passages that were embedded.")
    reused: int = Field(description="Passages whose vectors were kept.")
    calls: int = Field(description="Requests to the embedding provider.")
    tokens: int


class PassView(View):
    """A pass, running or ended."""

    model_config = ConfigDict(json_schema_extra=shown(examples.PASS))

    id: int
    trigger: PassTrigger
    outcome: PassOutcome
    started_at: Time
    ended_at: Maybe[Time] = None
    worker: str
    counts: PassCountsView
    error: Maybe[str] = None
    reasons: Maybe[list[str]] = Field(default=None, description="Why the read was incomplete.")
    reports: Maybe[list[str]] = Field(default=None, description="Items that were left out, by id.")


class PassListView(View):
    """The last passes, newest first."""

    model_config = ConfigDict(json_schema_extra=shown({"data": [examples.PASS]}))

    data: list[PassView]


class ExplanationView(View):
    """What each leg of a search says of a passage; absent where the leg did not find it or was not asked."""

    semantic_rank: Maybe[int] = Field(default=None, description="From 1.")
    cosine: Maybe[float] = None
    lexical_rank: Maybe[int] = Field(default=None, description="From 1.")
    bm25: Maybe[float] = None
    model: Maybe[str] = Field(default=None, description="That serves the collection.")


class MatchView(View):
    """A passage with its score and where it comes from."""

    collection: str
    document: str
    index: int = Field(description="Of the passage within its document, from 0.")
    text: str
    score: float = Field(description="The higher the better.")
    score_kind: ScoreKind = Field(
        description="`cosine`: -1 to 1. `bm25`: at least 0. `fused`: 0 to 1. Only a cosine can be compared with those "
        "of other answers."
    )
    title: Maybe[str] = None
    source: Maybe[str] = None
    section: Maybe[list[str]] = Field(default=None, description="The headings above it, outermost first.")
    lines: tuple[int, int] = Field(description="First and last line within the document, from 1.")
    trusted: bool
    explanation: Maybe[ExplanationView] = None


class UnavailableView(View):
    """A collection that was not searched."""

    collection: str
    reason: str


class SearchView(View):
    """The matches, best first."""

    model_config = ConfigDict(json_schema_extra=shown(examples.SEARCH))

    matches: list[MatchView]
    truncated: bool = Field(description="Matches were left out to stay within 20 000 characters.")
    unavailable: Maybe[list[UnavailableView]] = None
    mode: SearchMode = Field(description="How was searched.")
    degraded: Maybe[str] = Field(default=None, description="Why a hybrid search went by words alone.")


class HealthView(View):
    """The process answers."""

    model_config = ConfigDict(json_schema_extra=shown({"status": "ok"}))

    status: Literal["ok"] = "ok"


class ReadinessView(View):
    """Whether everything the service needs is there."""

    model_config = ConfigDict(json_schema_extra=shown({"status": "ready"}))

    status: Literal["ready", "unready"]
    missing: Maybe[list[str]] = None
    warnings: Maybe[list[str]] = Field(default=None, description="What a person should look at; work goes on.")


class IndexView(View):
    """What this is and where to go on."""

    model_config = ConfigDict(json_schema_extra=shown(examples.INDEX))

    name: str
    version: str
    links: dict[str, str]


class ErrorDetailView(View):
    """What went wrong."""

    code: str = Field(description="Stable; for programs.")
    message: str = Field(description="For people.")
    field: Maybe[str] = Field(default=None, description="The value that is wrong.")


class ErrorView(View):
    """The one shape of an error."""

    model_config = ConfigDict(
        json_schema_extra=shown({"error": {"code": "not_found", "message": "There is nothing at this path."}})
    )

    error: ErrorDetailView


def collection_view(collection: Collection) -> CollectionView:
    """A collection as REST shows it."""
    serving = collection.serving
    counts = collection.documents
    return CollectionView(
        name=collection.name,
        kind=collection.kind,
        title=collection.title,
        description=collection.description,
        trusted=collection.trusted,
        status=collection.status,
        model=collection.model if serving is None else serving.model,
        language=collection.language,
        generation=None if serving is None else serving.number,
        error=collection.error,
        failures=collection.failures or None,
        failing_since=collection.failed_at,
        retry_at=collection.retry_at,
        synced_at=collection.synced_at,
        updated_at=collection.updated_at,
        incomplete=list(collection.incomplete) or None,
        notice=collection.notice,
        running=collection.running is not None,
        documents=DocumentCountsView(
            total=counts.total, pending=counts.pending, ready=counts.ready, failed=counts.failed
        ),
        passages=collection.chunks,
    )


def status_view(collections: Sequence[Collection], missing: Sequence[str], warnings: Sequence[str]) -> StatusView:
    """What ``knowledge-worker status`` shows."""
    shown = [collection_view(one) for one in collections]
    return StatusView(data=shown, missing=list(missing) or None, warnings=list(warnings) or None)


def collection_list_view(collections: Sequence[Collection]) -> CollectionListView:
    """Collections as REST shows them."""
    return CollectionListView(data=[collection_view(collection) for collection in collections])


def pass_list_view(passes: Sequence[PassRecord]) -> PassListView:
    """Passes as REST shows them."""
    return PassListView(data=[_pass_view(record) for record in passes])


def search_view(result: SearchResult) -> SearchView:
    """What a search found, as REST shows it."""
    unavailable = [UnavailableView(collection=each.collection, reason=each.reason) for each in result.unavailable]
    return SearchView(
        matches=[_match_view(match) for match in result.matches],
        truncated=result.truncated,
        unavailable=unavailable or None,
        mode=result.mode,
        degraded=result.degraded,
    )


def _pass_view(record: PassRecord) -> PassView:
    return PassView(
        id=record.id,
        trigger=record.trigger,
        outcome=record.outcome,
        started_at=record.started_at,
        ended_at=record.ended_at,
        worker=record.worker,
        counts=PassCountsView.model_validate(record.counts.model_dump()),
        error=record.error,
        reasons=list(record.reasons) or None,
        reports=list(record.reports) or None,
    )


def _match_view(match: Match) -> MatchView:
    return MatchView(
        collection=match.collection,
        document=match.document,
        index=match.index,
        text=match.text,
        score=match.score,
        score_kind=match.score_kind,
        title=match.title,
        source=match.source,
        section=list(match.section) or None,
        lines=match.lines,
        trusted=match.trusted,
        explanation=None if match.explanation is None else _explanation_view(match.explanation),
    )


def _explanation_view(explanation: Explanation) -> ExplanationView:
    return ExplanationView.model_validate(explanation.model_dump())


class PlanView(View):
    """What a pass would do now."""

    model_config = ConfigDict(json_schema_extra=shown(examples.PLAN))

    collection: str
    model: str
    reembeds: bool = Field(description="Every document would be embedded again.")
    read: int
    added: int
    changed: int
    unchanged: int
    deleted: int
    skipped: int
    deletes_held_back: bool = Field(description="The declaration's limit would keep them until someone confirms.")
    documents: int = Field(description="Documents that would be embedded, wholly or in part.")
    passages: int = Field(description="Passages that would be sent to the model.")
    tokens: int = Field(description="Of these passages, estimated on the high side.")
    price: Maybe[float] = Field(default=None, description="Of these tokens, where the provider's price is set.")
    reasons: Maybe[list[str]] = Field(default=None, description="Why the read was incomplete.")
    reports: Maybe[list[str]] = Field(default=None, description="What was left out, the first ones.")


def plan_view(plan: Plan) -> PlanView:
    """A plan as it is answered."""
    values = plan.model_dump(exclude={"reasons", "reports"})
    return PlanView(**values, reasons=list(plan.reasons) or None, reports=list(plan.reports) or None)
