"""Every number with a meaning (specification §10)."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

ID_MAX_CHARS: Final = 255
FILE_MAX_BYTES: Final = 1_048_576
CONTENT_MAX_CHARS: Final = 1_048_576
NAME_MAX_CHARS: Final = 64
TITLE_MAX_CHARS: Final = 1000
"""Of a title or a source; every match carries both. A longer one is cut, with a warning on the document."""
DESCRIPTION_MAX_CHARS: Final = 2000
"""Of a managed collection."""
CHUNK_MAX_CHARS: Final = 2000
CHUNK_OVERLAP_CHARS: Final = 200
RESYNC_MIN_MS: Final = 60_000
RESYNC_MAX_MS: Final = 2_147_483_647
DURATION_MAX_MS: Final = 2_147_483_647
"""About 25 days: what a signed number of 32 bits holds, and every server takes."""
COUNT_MAX: Final = 1_000_000
CHUNKS_MAX: Final = 2_147_483_647
"""A table's threshold may be out of reach on purpose."""
CONCURRENCY_MAX: Final = 1000
"""Threads or connections of one process."""
LIST_DEFAULT: Final = 50
LIST_MAX: Final = 100
RESULTS_DEFAULT: Final = 5
RESULTS_MAX: Final = 20
PER_DOCUMENT_DEFAULT: Final = 3
RESULT_MAX_CHARS: Final = 20_000
QUERY_MAX_CHARS: Final = 1000
DIMENSIONS_MAX: Final = 3900
"""A vector in half precision must fit into one page of PostgreSQL (8 160 bytes) beside the rest of its row."""


class Limits(BaseModel):
    """Durations and bounds an operator may tune; each is a setting (``KNOWLEDGE_<NAME>``)."""

    model_config = ConfigDict(frozen=True)

    lease_ms: int = Field(
        default=300_000, ge=500, le=DURATION_MAX_MS, description="How long a worker owns a collection without renewing."
    )
    retry_ms: int = Field(
        default=5_000, ge=1, le=DURATION_MAX_MS, description="The first wait after a failure; it doubles with each one."
    )
    retry_max_ms: int = Field(
        default=300_000, ge=1, le=DURATION_MAX_MS, description="The longest wait after a failure."
    )
    quota_retry_ms: int = Field(
        default=900_000, ge=1, le=DURATION_MAX_MS, description="The shortest wait after exhausted credit."
    )
    tick_ms: int = Field(default=5_000, ge=100, le=DURATION_MAX_MS, description="How often beat asks what is due.")
    managed_poll_ms: int = Field(
        default=60_000, ge=100, le=DURATION_MAX_MS, description="How often a worker looks at each managed collection."
    )
    embed_timeout_ms: int = Field(
        default=60_000, ge=1, le=DURATION_MAX_MS, description="An embedding call without an answer is given up."
    )
    query_timeout_ms: int = Field(
        default=15_000, ge=1, le=DURATION_MAX_MS, description="The same for the embedding of a query."
    )
    embed_batch_size: int = Field(default=64, ge=1, le=2048, description="Passages in one embedding call.")
    embed_concurrency: int = Field(
        default=8, ge=1, le=CONCURRENCY_MAX, description="How many tasks may embed one collection at once."
    )
    claim_documents: int = Field(default=64, ge=1, le=COUNT_MAX, description="Documents a worker claims at once.")
    claim_ms: int = Field(
        default=120_000,
        ge=500,
        le=DURATION_MAX_MS,
        description="How long claimed documents stay claimed without renewing.",
    )
    claim_deaths: int = Field(
        default=3, ge=1, le=COUNT_MAX, description="A document that took this many workers with it is failed."
    )
    read_batch: int = Field(
        default=1000, ge=1, le=COUNT_MAX, description="Documents compared and stored in one transaction."
    )
    progress_timeout_ms: int = Field(
        default=1_800_000, ge=1000, le=DURATION_MAX_MS, description="A pass that moves nothing for so long is ended."
    )
    own_table_chunks: int = Field(
        default=10_000,
        ge=1,
        le=CHUNKS_MAX,
        description="A generation of more passages gets a table of its own with an HNSW index.",
    )
    shared_table_chunks: int = Field(
        default=5_000,
        ge=0,
        le=CHUNKS_MAX,
        description="One that shrank below so many goes back to the shared table; at most half of own_table_chunks.",
    )
    hnsw_ef_search: int = Field(
        default=400,
        ge=1,
        le=1000,
        description="Candidates an HNSW search keeps: more is slower and finds more.",
    )
    hybrid_fusion: Literal["weighted", "rrf"] = Field(
        default="weighted", description="How the two legs of a hybrid search become one ranking."
    )
    hybrid_weight: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="How much meaning counts against words; without it what was measured for the model, else 0.4.",
    )
    index_memory_mb: int = Field(
        default=1024, ge=16, le=COUNT_MAX, description="The most memory PostgreSQL may use to build one HNSW index."
    )
    passes_kept: int = Field(default=100, ge=1, le=COUNT_MAX, description="Recorded passes kept for each collection.")
