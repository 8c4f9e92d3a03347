"""After a quiet time: is the index what it must be, and what did it cost?"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg

from knowledge_worker.chunking import chunk_text
from knowledge_worker.testing.provider import ScriptedProvider
from soaking.truth import DECLARED, MANAGED, POISON, Key, Truth

QUIET_S = 120.0
REAPED = "its lease ran out"


@dataclass
class Cost:
    """What was sent to the providers.

    Attributes:
        calls: requests.
        passages: texts that were answered.
        again: those of them that had been answered before.
    """

    calls: int = 0
    passages: int = 0
    again: int = 0


async def wait_for_quiet(client: httpx.AsyncClient, database_url: str, truth: Truth) -> None:
    """Until nothing is pending, running or asked for; some time is enough for that."""
    end = time.monotonic() + QUIET_S
    views: list[dict[str, Any]] = []
    while time.monotonic() < end:
        try:
            views = (await client.get("/knowledge/collections")).raise_for_status().json()["data"]
        except httpx.HTTPError:
            await asyncio.sleep(0.5)
            continue
        if len(views) == len(DECLARED + MANAGED) and all(map(_is_quiet, views)) and not _asked_for(database_url):
            return
        await asyncio.sleep(0.5)
    truth.problem(f"not quiet after {QUIET_S:.0f} s: {[view for view in views if not _is_quiet(view)]}")


def _asked_for(database_url: str) -> list[str]:
    """Collections with a request that is not done, or a pass that runs."""
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select name from collections where sync_done < sync_requested or holder is not null order by name"
        ).fetchall()
    return [name for (name,) in rows]


def _is_quiet(view: dict[str, Any]) -> bool:
    return not view["running"] and view["documents"]["pending"] == 0 and "error" not in view


def compare(database_url: str, truth: Truth) -> Counter[str]:
    """Compare what is stored with what must be; the documents that are there, by status."""
    wanted = truth.documents()
    with psycopg.connect(database_url) as connection:
        stored = {
            (name, document): (status, content)
            for name, document, status, content in connection.execute(
                "select c.name, d.document_id, d.status, d.content from documents d "
                "join collections c on c.id = d.collection_id"
            )
        }
        passages = _passages(connection)
    for name in _asked_for(database_url):
        truth.problem(f"{name}: a request for a sync is not done")
    for key in sorted(wanted.keys() - stored.keys()):
        truth.problem(f"{key} is not there")
    for key in sorted((stored.keys() | passages.keys()) - wanted.keys()):
        truth.problem(f"{key} is there and must not be")
    for key in sorted(wanted.keys() & stored.keys()):
        _compare_one(key, wanted[key], *stored[key], passages.get(key, []), truth)
    return Counter(status for status, _ in stored.values())


def _compare_one(key: Key, wanted: str, status: str, content: str, passages: list[str], truth: Truth) -> None:
    if content != wanted:
        truth.problem(f"{key} is stored as {content[:80]!r}, and {wanted[:80]!r} was promised")
    if POISON in wanted:
        if status != "failed" or passages:
            truth.problem(f"{key} is {status} with {len(passages)} passages, though its provider refuses it")
    elif status != "ready":
        truth.problem(f"{key} is {status}")
    elif passages != [chunk.text for chunk in chunk_text(wanted)]:
        truth.problem(f"{key} has other passages than its content: {len(passages)}")


def _passages(connection: psycopg.Connection[Any]) -> dict[Key, list[str]]:
    found: dict[Key, list[str]] = {}
    served = connection.execute(
        "select c.name, g.id, g.storage from collections c join generations g on g.id = c.serving"
    ).fetchall()
    for name, generation, storage in served:
        own = storage == "own"
        rows = connection.execute(
            f"""
            select coalesce(d.document_id, '(nobody''s)'), k.text
            from {f"chunks_{generation}" if own else "chunks"} k left join documents d on d.id = k.document_id
            where {"true" if own else f"k.generation_id = {generation}"} order by k.document_id, k.ord
            """  # type: ignore[arg-type]
        )
        for document, text in rows:
            found.setdefault((name, document), []).append(text)
    return found


def compare_passes(database_url: str, truth: Truth) -> Counter[str]:
    """No two passes of a collection at once, and none that ended in a traceback; passes by outcome."""
    with psycopg.connect(database_url) as connection:
        rows = connection.execute(
            "select c.name, p.id, p.started_at, p.ended_at, p.outcome, coalesce(p.error, '') "
            "from passes p join collections c on c.id = p.collection_id order by c.id, p.id"
        ).fetchall()
    for name, number, _, _, _, error in rows:
        if error.startswith("Unexpected "):
            truth.problem(f"{name}: pass {number} ended with a fault of this program: {error}")
    for (name, number, _, ended, outcome, error), (after, _, started, *_rest) in itertools.pairwise(rows):
        # Of a worker that is gone the end is when it was noticed, which is when the next one begins at the earliest.
        if name == after and (ended is None or started < ended) and REAPED not in error:
            truth.problem(f"{name}: pass {number} ({outcome}) was running when the next one began")
    return Counter(outcome for _, _, _, _, outcome, _ in rows)


def cost(providers: Sequence[ScriptedProvider], truth: Truth) -> Cost:
    """What was paid for, and whether what was paid for twice is explained."""
    total = Cost()
    for provider in providers:
        total.calls += len(provider.requests)
        documents = Counter({text: count for text, count in provider.embedded.items() if " says number " in text})
        total.passages += documents.total()
        total.again += documents.total() - len(documents)
    if total.again > truth.excused:
        truth.problem(f"{total.again} passages were paid for again; {truth.excused} at most are explained")
    return total
