"""Records of passes."""

from __future__ import annotations

from typing import Final

from knowledge_worker.domain.passes import PassCounts, PassRecord
from knowledge_worker.store.postgres.database import Database, Transaction
from knowledge_worker.store.postgres.rows import pass_of
from knowledge_worker.store.protocol import PassStore, Work

REPORTS_KEPT: Final = 100


class PostgresPasses(PassStore):
    """One row a pass; whoever works on it adds to it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, pass_id: int, work: Work) -> None:
        with self._database.transaction() as tx:
            add_counts(tx, pass_id, work.counts)
            if work.reports:
                tx.run(
                    "update passes set reports = (reports || cast(:reports as text[]))[1:cast(:kept as int)] "
                    "where id = :id",
                    id=pass_id,
                    kept=REPORTS_KEPT,
                    reports=work.reports,
                )

    def list_newest(self, name: str, *, limit: int) -> list[PassRecord]:
        with self._database.transaction() as tx:
            rows = tx.rows(
                """
                select p.*, c.name from passes p join collections c on c.id = p.collection_id
                where c.name = :name order by p.id desc limit :limit
                """,
                name=name,
                limit=limit,
            )
        return [pass_of(row) for row in rows]

    def counts(self, pass_id: int) -> PassCounts:
        with self._database.transaction() as tx:
            row = tx.row("select * from passes where id = :id", id=pass_id)
        return PassCounts(**{name: row[name] for name in PassCounts.model_fields}) if row else PassCounts()


def add_counts(tx: Transaction, pass_id: int, counts: PassCounts) -> None:
    """Add to a pass's counts; nothing is written when all are zero."""
    values = {name: value for name, value in counts.model_dump().items() if value}
    if values:
        changes = ", ".join(f"{name} = {name} + :{name}" for name in values)
        tx.run(f"update passes set {changes} where id = :pass_id", pass_id=pass_id, **values)
