"""The first schema: collections, generations, documents, chunks, passes, nodes."""

from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

STATEMENTS = (
    "create extension if not exists vector",
    """
    create table collections (
      id integer generated always as identity primary key,
      name text not null unique,
      kind text not null check (kind in ('declared', 'managed')),
      title text,
      description text,
      orphaned boolean not null default false,
      trusted boolean not null default false,
      declared_trusted boolean not null default false,
      model text not null,
      declaration text,
      resync_ms bigint,
      serving bigint,
      building bigint,
      last_number integer not null default 0,
      sync_requested bigint not null default 0,
      sync_running bigint not null default 0,
      sync_done bigint not null default 0,
      force_seq bigint not null default 0,
      confirm_seq bigint not null default 0,
      request_trigger text not null default 'request',
      error text,
      failures integer not null default 0,
      failed_at timestamptz,
      retry_at timestamptz,
      broken boolean not null default false,
      incomplete text[] not null default '{}',
      notice text,
      synced_at timestamptz,
      fence bigint not null default 0,
      holder text,
      lease_until timestamptz,
      pass_id bigint,
      helpers_open boolean not null default false,
      helper_error jsonb,
      polled_at timestamptz,
      created_at timestamptz not null default clock_timestamp(),
      updated_at timestamptz not null default clock_timestamp()
    )
    """,
    """
    create table generations (
      id bigint generated always as identity primary key,
      collection_id integer not null references collections on delete cascade,
      number integer not null,
      slot smallint not null check (slot in (0, 1)),
      model text not null,
      dimensions integer,
      chunker text not null,
      created_at timestamptz not null default clock_timestamp(),
      unique (collection_id, number)
    )
    """,
    """
    create table documents (
      id bigint generated always as identity primary key,
      collection_id integer not null references collections on delete cascade,
      document_id text not null,
      title text,
      source text,
      metadata jsonb not null default '{}',
      content text not null,
      chars integer not null,
      hash text not null,
      details_hash text not null,
      metadata_hash text not null,
      owner text,
      version bigint not null default 1,
      settled_0 bigint not null default 0,
      settled_1 bigint not null default 0,
      status text not null default 'pending' check (status in ('pending', 'ready', 'failed')),
      error text,
      warnings text[] not null default '{}',
      claim_token text,
      claim_until timestamptz,
      deaths integer not null default 0,
      created_at timestamptz not null default clock_timestamp(),
      updated_at timestamptz not null default clock_timestamp(),
      unique (collection_id, document_id)
    )
    """,
    "create index documents_settled_0 on documents (collection_id, settled_0, id)",
    "create index documents_settled_1 on documents (collection_id, settled_1, id)",
    "create index documents_status on documents (collection_id, status)",
    "create index documents_claims on documents (collection_id, claim_token) where claim_token is not null",
    """
    create table chunks (
      generation_id bigint not null,
      document_id bigint not null,
      ord integer not null,
      text text not null,
      text_hash bytea not null,
      title text,
      source text,
      section text[] not null,
      line_start integer not null,
      line_end integer not null,
      char_start integer not null,
      char_end integer not null,
      embedding halfvec not null,
      primary key (generation_id, document_id, ord)
    )
    """,
    # An exact scan reads vectors three to six times faster when they are not moved out of line.
    "alter table chunks alter embedding set storage plain",
    "create index chunks_document on chunks (document_id)",
    """
    create table passes (
      id bigint generated always as identity primary key,
      collection_id integer not null references collections on delete cascade,
      trigger text not null,
      outcome text not null default 'running',
      started_at timestamptz not null,
      ended_at timestamptz,
      worker text not null,
      declaration text,
      read bigint not null default 0,
      added bigint not null default 0,
      changed bigint not null default 0,
      unchanged bigint not null default 0,
      deleted bigint not null default 0,
      skipped bigint not null default 0,
      failed bigint not null default 0,
      embedded bigint not null default 0,
      reused bigint not null default 0,
      calls bigint not null default 0,
      tokens bigint not null default 0,
      error text,
      reasons text[] not null default '{}',
      reports text[] not null default '{}'
    )
    """,
    "create index passes_collection on passes (collection_id, id desc)",
    """
    create table declarations (
      collection_id integer not null references collections on delete cascade,
      fingerprint text not null,
      first_declared_at timestamptz not null default clock_timestamp(),
      primary key (collection_id, fingerprint)
    )
    """,
    """
    create table nodes (
      id text primary key,
      started_at timestamptz not null,
      seen_at timestamptz not null,
      queues text[] not null,
      declarations jsonb not null
    )
    """,
    "create table heartbeats (name text primary key, at timestamptz not null)",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    for table in ("heartbeats", "nodes", "declarations", "passes", "chunks", "documents", "generations", "collections"):
        op.execute(f"drop table {table}")
