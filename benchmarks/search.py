"""What a search finds and costs: BM25 against bm25s, HNSW against every passage, the API against bare SQL.

Usage: ``python benchmarks/search.py DATA [--passages 100000] [--queries 200] [--only words index api] [--check]``;
DATA holds retrieval sets, a folder each with ``corpus.jsonl`` and ``queries.jsonl`` (BEIR's layout). Needs the extra
``local`` and the dependency group ``bench``.

- ``words``: each document of the set ``scifact`` is indexed without a model; bm25s gets the words that PostgreSQL took
  from each passage and from each query. How many of the best ten passages are the same?
- ``index``: sentences of all sets, each a document of its own, embedded by ``local/wordllama`` and indexed with the
  default settings. How many of the best ten does the HNSW index find, and are there as many matches as there are at
  all, whatever the filter?
- ``api``: the same passages and real queries, whose vectors are kept: one client and then eight of the HTTP API of one
  process, against the search statement alone on one connection. Absolute times depend on the machine.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import multiprocessing
import re
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bm25s
import harness
import httpx
import psycopg
import uvicorn
from sqlalchemy import Engine, event

from knowledge_worker import Knowledge, KnowledgeCollection, create_app, define_knowledge_source
from knowledge_worker.chunking.words import searchable_query
from knowledge_worker.domain.ranking import SearchMode
from knowledge_worker.store.protocol import SearchQuery, SearchTarget

TOP = 10
OVERLAP_MIN = 0.95
RECALL_MIN = 0.97
API_RATIO_MAX = 1.5
CLIENTS = 8
MODEL = "local/wordllama"
TOKEN = "a-token-of-the-benchmark"
SHARES = {"50 %": 2, "5 %": 20, "0.5 %": 200, "0.05 %": 2000}
"""Of the documents that pass a filter: one of so many."""

BY_INDEX = re.compile(r"order by (embedding <=> cast\(\S+ as halfvec\)) limit")
"""The one order that an HNSW index gives."""


def read(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def sentences(data: Path, count: int) -> list[str]:
    """So many different passages of one or two sentences, out of all sets."""
    found: dict[str, None] = {}
    for folder in sorted(one for one in data.iterdir() if one.is_dir()):
        for document in read(folder, "corpus.jsonl"):
            parts = [part for part in re.split(r"(?<=[.!?。])\s+", document["text"]) if len(part) > 20]
            found |= dict.fromkeys(part[:1900] for part in parts)
            found |= dict.fromkeys(f"{one} {other}"[:1900] for one, other in itertools.pairwise(parts))
    passages = list(found)
    if len(passages) < count:
        raise SystemExit(f"{data} has {len(passages)} passages, not {count}.")
    return passages[:: len(passages) // count][:count]


def questions(data: Path, count: int) -> list[str]:
    """Queries of all sets in turn."""
    sets = [read(folder, "queries.jsonl") for folder in sorted(one for one in data.iterdir() if one.is_dir())]
    taken = [query["text"] for queries in itertools.zip_longest(*sets) for query in queries if query is not None]
    return list(dict.fromkeys(taken))[:count]


def declared(name: str, documents: Callable[[], Iterator[dict[str, Any]]], **options: Any) -> KnowledgeCollection:
    return KnowledgeCollection(name, sources=[define_knowledge_source(documents=documents)], **options)


def indexed(knowledge: Knowledge, name: str) -> None:
    knowledge.node_started(["sync"])
    harness.run_pass(knowledge, name)


def words(url: str, data: Path, queries: int, report: harness.Report) -> None:
    """The best ten passages by words and those of bm25s."""
    documents = read(data / "scifact", "corpus.jsonl")
    asked = [one["text"] for one in read(data / "scifact", "queries.jsonl")][:queries]

    def source() -> Iterator[dict[str, Any]]:
        yield from ({"id": one["_id"], "content": f"{one['title']}\n\n{one['text']}"} for one in documents)

    for language in ("simple", "english"):
        name = f"words-{language}"
        knowledge = harness.knowledge_of(url, declared(name, source, model=None, language=language))
        indexed(knowledge, name)
        collection = knowledge.collection(name)
        serving = collection.serving
        assert serving is not None
        # Without what a search does afterwards: joining neighbours, keeping within its budget.
        store = knowledge._parts.store  # type: ignore[attr-defined]
        target = SearchTarget(key=collection.key, name=name, trusted=True, generation=serving)
        with psycopg.connect(url) as connection:
            rows = connection.execute(
                """
                select d.document_id, c.ord, array(
                  select w.lexeme from unnest(c.words) w, unnest(w.positions))
                from chunks c join documents d on d.id = c.document_id where c.generation_id = %s
                """,
                [serving.id],
            ).fetchall()
            taken = [
                connection.execute(
                    "select tsvector_to_array(to_tsvector(%s::regconfig, %s))", [language, searchable_query(query)]
                ).fetchone()
                for query in asked
            ]
        reference = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        reference.index([row[2] for row in rows], show_progress=False)
        same = 0.0
        for query, lexemes in zip(asked, taken, strict=True):
            assert lexemes is not None
            known = [word for word in lexemes[0] if word in reference.vocab_dict]
            places, scores = reference.retrieve([known], k=TOP, show_progress=False)
            right = {rows[place][:2] for place, score in zip(places[0], scores[0], strict=True) if score > 0}
            hits = store.chunks.search(
                [target], SearchQuery(vector=None, words=searchable_query(query), limit=TOP, per_document=TOP)
            )
            assert hits is not None
            same += len(right & {(hit.document, hit.index) for hit in hits}) / max(1, len(right))
        overlap = same / len(asked)
        report.add(
            f"top {TOP} by words, {len(rows)} passages, {language}",
            f"{overlap:.3f} of bm25s's",
            bar=f">= {OVERLAP_MIN}",
            ok=overlap >= OVERLAP_MIN,
        )
        knowledge.close()


def _passages(result: Any) -> set[tuple[str, int]]:
    return {(match.document, match.index) for match in result.matches}


def loaded(url: str, passages: Sequence[str]) -> Knowledge:
    """A process that serves the passages; indexing them is not measured here."""
    knowledge = served(url, passages)
    started = time.perf_counter()
    indexed(knowledge, "sentences")
    print(f"{len(passages)} passages indexed in {time.perf_counter() - started:.0f} s")
    return knowledge


def served(url: str, passages: Sequence[str] = ()) -> Knowledge:
    def source() -> Iterator[dict[str, Any]]:
        for number, text in enumerate(passages):
            parts = {f"part{share}": number % share == share // 2 for share in SHARES.values()}
            yield {"id": f"{number:06}", "content": text, "metadata": parts}

    tokens = json.dumps([{"value": TOKEN, "id": "benchmark", "permissions": ["knowledge:*"]}])
    return harness.knowledge_of(url, declared("sentences", source, model=MODEL), settings={"tokens": tokens})


@contextmanager
def exact(knowledge: Knowledge) -> Iterator[None]:
    """Searches of this process look at every passage instead of the HNSW index."""
    engine = _engine(knowledge)

    def without_index(_connection: Any, _cursor: Any, statement: str, values: Any, *_rest: Any) -> tuple[str, Any]:
        return BY_INDEX.sub(r"order by (\1) + 0 limit", statement), values

    event.listen(engine, "before_cursor_execute", without_index, retval=True)
    try:
        yield
    finally:
        event.remove(engine, "before_cursor_execute", without_index)


def _engine(knowledge: Knowledge) -> Engine:
    return knowledge._parts.store.database.engine  # type: ignore[attr-defined]


def index(knowledge: Knowledge, asked: Sequence[str], report: harness.Report) -> None:
    """What the HNSW index finds of what there is."""
    search = functools.partial(knowledge.search, collections="sentences", mode=SearchMode.SEMANTIC)
    assert BY_INDEX.search(captured(knowledge, asked[0], SearchMode.SEMANTIC).sql)
    right = 0
    for query in asked:
        found = _passages(search(query, top_k=TOP))
        with exact(knowledge):
            right += len(found & _passages(search(query, top_k=TOP)))
    recall = right / (TOP * len(asked))
    report.add(f"recall@{TOP} of HNSW", f"{recall:.3f}", bar=f">= {RECALL_MIN}", ok=recall >= RECALL_MIN)
    for share, divisor in SHARES.items():
        filters = {"metadata": {f"part{divisor}": True}}
        fewer = right = 0
        taken: list[float] = []
        for query in asked[:50]:
            started = time.perf_counter()
            found = _passages(search(query, top_k=20, filters=filters))
            taken.append(1000 * (time.perf_counter() - started))
            with exact(knowledge):
                everything = _passages(search(query, top_k=20, filters=filters))
            fewer += len(found) < len(everything)
            right += len(found & everything) / len(everything)
        report.add(
            f"a filter that {share} pass",
            f"recall@20 {right / len(taken):.3f}, {statistics.median(taken):.1f} ms, {fewer} with fewer matches",
            bar="0 with fewer",
            ok=not fewer,
        )


@dataclass(frozen=True)
class Bare:
    """The statements of a search, as the driver gets them."""

    setting: str | None
    sql: str
    values: Any


def captured(knowledge: Knowledge, query: str, mode: SearchMode) -> Bare:
    """The search statement of a query."""
    engine = _engine(knowledge)
    seen: list[tuple[str, Any]] = []

    def note(_connection: Any, _cursor: Any, statement: str, values: Any, *_rest: Any) -> None:
        seen.append((statement, values))

    event.listen(engine, "before_cursor_execute", note)
    knowledge.search(query, collections="sentences", mode=mode)
    event.remove(engine, "before_cursor_execute", note)
    setting = next((sql for sql, _ in seen if "hnsw" in sql), None)
    return Bare(setting, *seen[-1])


def api(url: str, knowledge: Knowledge, asked: Sequence[str], report: harness.Report) -> None:
    """One client and then several against the search statement on one connection."""
    for mode in (SearchMode.HYBRID, SearchMode.SEMANTIC, SearchMode.LEXICAL):
        bare = [captured(knowledge, query, mode) for query in asked]
        with serving(url) as address, psycopg.connect(url) as connection, _client(address) as client:
            bodies = [{"query": query, "collections": ["sentences"], "mode": mode} for query in asked]
            connection.execute("select set_config('hnsw.ef_search', '400', false)")
            connection.execute("select set_config('hnsw.iterative_scan', 'strict_order', false)")
            connection.commit()
            bare_ms: list[float] = []
            api_ms: list[float] = []
            for turn in range(4):
                for one, body in zip(bare, bodies, strict=True):  # side by side, so that both see the same machine
                    started = time.perf_counter()
                    connection.execute(one.sql, one.values).fetchall()  # type: ignore[arg-type]
                    connection.commit()
                    between = time.perf_counter()
                    client.post("/knowledge/search", json=body).raise_for_status()
                    if turn:  # the first makes the vectors and warms everything
                        bare_ms.append(1000 * (between - started))
                        api_ms.append(1000 * (time.perf_counter() - between))
            ratio = statistics.median(api_ms) / statistics.median(bare_ms)
            report.add(
                f"API, {mode}, one client",
                f"{statistics.median(api_ms):.1f} ms against {statistics.median(bare_ms):.1f} ms: {ratio:.2f}",
                bar=f"<= {API_RATIO_MAX}",
                ok=ratio <= API_RATIO_MAX,
            )
            rate = _rate(address, bodies * 2)
            report.add(
                f"API, {mode}, {CLIENTS} clients",
                f"{rate:.0f}/s against {1000 / statistics.mean(bare_ms):.0f}/s: "
                f"{rate * statistics.mean(bare_ms) / 1000:.2f}",
            )


def _client(address: str) -> httpx.Client:
    return httpx.Client(base_url=address, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=60)


def _rate(address: str, bodies: Sequence[dict[str, Any]]) -> float:
    """Searches a second of several clients."""

    def run(mine: Sequence[dict[str, Any]]) -> None:
        with _client(address) as client:
            for body in mine:
                client.post("/knowledge/search", json=body).raise_for_status()

    started = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(run, [bodies[number::CLIENTS] for number in range(CLIENTS)]))
    return len(bodies) / (time.perf_counter() - started)


@contextmanager
def serving(url: str) -> Iterator[str]:
    """The address of the API in a process of its own."""
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    process = multiprocessing.get_context("spawn").Process(target=_serve, args=(url, port))
    process.start()
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(address)
        yield address
    finally:
        process.terminate()
        process.join()


def _serve(url: str, port: int) -> None:
    uvicorn.run(create_app(served(url)), host="127.0.0.1", port=port, log_level="warning", access_log=False)


def _wait(address: str) -> None:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            httpx.get(f"{address}/healthz").raise_for_status()
        except httpx.HTTPError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("The API did not start within a minute.")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder of retrieval sets")
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--only", nargs="+", choices=("words", "index", "api"), default=("words", "index", "api"))
    parser.add_argument("--check", action="store_true", help="end with 1 when a bar is missed")
    options = parser.parse_args(argv)
    report = harness.Report()
    with harness.database() as url:
        print(harness.described_machine(url))
        served(url).migrate()
        if "words" in options.only:
            words(url, options.data, options.queries, report)
        if {"index", "api"} & {*options.only}:
            asked = questions(options.data, options.queries)
            knowledge = loaded(url, sentences(options.data, options.passages))
            if "index" in options.only:
                index(knowledge, asked, report)
            if "api" in options.only:
                api(url, knowledge, asked, report)
            knowledge.close()
        print(harness.described_machine(url))
    report.show()
    return report.status(check=options.check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
