"""The SQL of a search: one statement for all collections that one model serves.

The semantic leg is an exact scan over each small generation and an HNSW scan over each large one. The lexical leg is
BM25 (Robertson and Zaragoza, 2009; k1 1.2, b 0.75, the idf of Lucene) over PostgreSQL's own text search: for one word
and equal weights ``ts_rank`` is ``(1 + 1/4 + … + 1/tf²) / 1.64493406685``, from which the term frequency is got back
without unpacking the vector. Passages with one of the query's rare words are looked at; every word counts.
"""

from __future__ import annotations

from collections.abc import Collection as AnyCollection
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge_worker.chunking.words import is_lone
from knowledge_worker.domain.collection import ChunkStorage
from knowledge_worker.domain.ranking import RRF_K, Fusion, FusionMethod
from knowledge_worker.store.postgres.placement import Part
from knowledge_worker.store.postgres.words import QueryWords
from knowledge_worker.store.protocol import SearchTarget

K1: Final = 1.2
B: Final = 0.75
BASEL: Final = 1.64493406685
"""π²/6, as PostgreSQL's ``calc_rank_or`` has it."""

RARE_SHARE: Final = 0.03
"""Of 100,000 passages the best ten are the same as by every word in 996 of 1000 cases, in a tenth of the time."""
RARE_AT_LEAST: Final = 1000
"""A word of fewer passages is rare: looking at all of them is quick."""
CANDIDATE_WORDS_LEAST: Final = 2
WORDS_MAX: Final = 24
"""Of longer queries the rarest words count."""

HIT: Final = "t.ord, t.score, t.beyond, t.cosine, t.semantic_place, t.bm25, t.lexical_place, " + ", ".join(
    f"t.{name}" for name in ("title", "source", "section", "line_start", "line_end", "char_start", "char_end", "text")
)
TEXTS: Final = "title, source, section, line_start, line_end, char_start, char_end, text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What a search statement is made of.

    Attributes:
        semantic: whether there is a query vector (``:query``).
        words: the query's words for each target's generation; None without a lexical leg.
        all_words: target keys in which every word makes a passage a candidate, however common it is.
        exact: target keys whose HNSW index is not to be used.
        spread: whether enough passages of a document leave the places of a leg to other documents; it takes looking at
            every passage.
        per_document: passages of one document that come before those of others run out.
        candidates: passages that each leg contributes.
        limit: passages to return.
        only: SQL that is true of the documents (``d``) that may be found.
    """

    targets: Sequence[SearchTarget]
    semantic: bool
    words: Mapping[int, QueryWords] | None
    fusion: Fusion
    candidates: int
    limit: int
    per_document: int
    only: str = "true"
    min_score: bool = False
    exact: AnyCollection[int] = ()
    all_words: AnyCollection[int] = ()
    spread: bool = False

    def sql(self) -> str:
        """The SQL; generations, limits and words stand in it as literals, so that a cached plan fits each of them."""
        legs: list[str] = []
        if self.semantic:
            legs.append(_semantic_leg(self))
        if self.words is not None:
            legs += _lexical_leg(self)
        texts = " union all ".join(
            f"""
            select best.*, {TEXTS} from best join {part.table} k on {part.where}
              and k.document_id = best.document_id and k.ord = best.ord where best.key = {target.key:d}
            """
            for target in self.targets
            for part in [_part(target)]
        )
        # Every collection has a row, matches or not, with what it serves in the snapshot of the search.
        return f"""
            with {", ".join(legs)},
            fused as materialized ({_fused(self)}),
            capped as (
              select *, row_number() over (partition by document_id order by score desc, ord) > {self.per_document:d}
                as beyond from fused
            ),
            best as materialized (
              select * from capped order by beyond, score desc, document_id, ord limit {self.limit:d}
            ),
            texts as ({texts})
            select c.id as key, c.serving, s.storage, c.trusted, d.document_id as document,
                   {HIT},
                   {"(select count(*) from near where near.key = c.id)" if self.semantic else "0"} as near,
                   {"(select count(*) from lexical where lexical.key = c.id)" if self.words is not None else "0"}
                     as worded
            from collections c
            left join generations s on s.id = c.serving
            left join texts t on t.key = c.id
            left join documents d on d.id = t.document_id
            where c.id = any(:keys)
        """


def candidate_words(words: QueryWords) -> tuple[list[str], list[str]]:
    """Which words of a query make a passage a candidate, and which count, rarest first.

    Returns:
        Candidate words, and all words that count.
    """
    counted = sorted(words.words, key=lambda word: (words.common.get(word, 0), word))[:WORDS_MAX]
    rare = max(RARE_AT_LEAST, RARE_SHARE * words.chunks)
    candidates = [
        word for place, word in enumerate(counted) if words.common.get(word, 0) <= rare or place < CANDIDATE_WORDS_LEAST
    ]
    return candidates, counted


def _semantic_leg(statement: Statement) -> str:
    branches = " union all ".join(_semantic_branch(statement, target) for target in statement.targets)
    return f"""
        near as materialized ({branches}),
        semantic as materialized ({_leg(statement, "near", "distance")})
    """


def _semantic_branch(statement: Statement, target: SearchTarget) -> str:
    part = _part(target)
    distance = "embedding <=> cast(:query as halfvec)"
    found = f"""
        select {target.key:d} as key, document_id, ord, {distance} as distance from {part.table}
        where {part.where} and embedding is not null and {_allowed(target, statement.only)}
    """
    if statement.spread:
        return f"({_best(statement, f'({found}) one', 'distance')})"
    if part.storage is ChunkStorage.SHARED or target.key in statement.exact:
        order = f"({distance}) + 0, document_id, ord"  # the sum keeps the planner from the index
    else:
        order = distance
    return f"({found} order by {order} limit {statement.candidates:d})"


def _leg(statement: Statement, found: str, order: str) -> str:
    """The candidates of a leg out of those of its targets, with their places."""
    return f"""
        select *, row_number() over (order by {order}, document_id, ord) as place
        from ({_best(statement, found, order)}) candidates order by place
    """


def _best(statement: Statement, found: str, order: str) -> str:
    """The first candidates of a relation; with ``spread`` enough of every document before more of any."""
    if not statement.spread:
        return f"select * from {found} order by {order}, document_id, ord limit {statement.candidates:d}"
    return f"""
        select key, document_id, ord, {order.split()[0]} from (
          select *, row_number() over (partition by document_id order by {order}, ord) > {statement.per_document:d}
            as more from {found}
        ) placed order by more, {order}, document_id, ord limit {statement.candidates:d}
    """


def _lexical_leg(statement: Statement) -> list[str]:
    assert statement.words is not None
    ctes: list[str] = []
    scored: list[str] = []
    for target in statement.targets:
        words = statement.words.get(target.generation.id)
        if words is None or not words.words:
            continue
        candidates, counted = candidate_words(words)
        if target.key in statement.all_words:
            candidates = counted
        ctes += _scored(statement, target, words, candidates, counted)
        scored.append(f"select * from scored_{target.key:d}")
    found = " union all ".join(scored) or (
        "select cast(null as integer) as key, cast(null as bigint) as document_id, cast(null as integer) as ord, "
        "cast(null as float8) as bm25 where false"
    )
    ctes.append(f"lexical as materialized ({_leg(statement, f'({found}) worded', 'bm25 desc')})")
    return ctes


def _scored(
    statement: Statement,
    target: SearchTarget,
    words: QueryWords,
    candidates: Sequence[str],
    counted: Sequence[str],
) -> list[str]:
    part = _part(target)
    key = target.key
    ranks = ", ".join(f"ts_rank('{{1,1,1,1}}', words, {_tsquery([word])}) as r{n}" for n, word in enumerate(counted))
    # Of a rare word every passage is among the hits, so it is counted here; a common one was counted before.
    counts = ", ".join(
        f"count(*) filter (where r{n} > 0) as n{n}" if word in candidates else f"{words.common.get(word, 0):d} as n{n}"
        for n, word in enumerate(counted)
    )
    most = ", ".join(f"n{n}" for n in range(len(counted)))
    # All of it in double precision: a literal with a point is numeric, which takes a hundred times as long.
    chunks = f"cast(greatest({words.chunks:d}, {most}) as float8)"
    weights = ", ".join(
        f"ln(1 + ({chunks} - n{n} + cast(0.5 as float8)) / (n{n} + cast(0.5 as float8))) * {K1 + 1} as w{n}"
        for n in range(len(counted))
    )
    length = f"{K1 * (1 - B)} + word_count * cast({K1 * B / max(words.mean_words, 1.0):.9f} as float8)"
    score = " + ".join(f"w{n} * tf{n} / (tf{n} + norm)" for n in range(len(counted)))
    frequencies = ", ".join(f"{_frequency(word, f'r{n}')} as tf{n}" for n, word in enumerate(counted))
    scored = f"""
        select {key:d} as key, document_id, ord, {score} as bm25
        from (select document_id, ord, {length} as norm, {frequencies} from hits_{key:d}
              where {_allowed(target, statement.only)}) h, weights_{key:d}
    """
    return [
        f"""
        hits_{key:d} as materialized (
          select document_id, ord, word_count, {ranks} from {part.table}
          where {part.where} and words @@ {_tsquery(candidates)}
        )
        """,
        f"weights_{key:d} as materialized (select {weights} from (select {counts} from hits_{key:d}) counts)",
        f"""
        scored_{key:d} as ({_best(statement, f"({scored}) one", "bm25 desc")})
        """,
    ]


def _fused(statement: Statement) -> str:
    if statement.words is None:
        least = "where 1 - distance >= :min_score" if statement.min_score else ""
        return f"""
            select key, document_id, ord, 1 - distance as cosine, place as semantic_place,
                   cast(null as float8) as bm25, cast(null as bigint) as lexical_place, 1 - distance as score
            from semantic {least}
        """
    if not statement.semantic:
        return """
            select key, document_id, ord, cast(null as float8) as cosine, cast(null as bigint) as semantic_place,
                   bm25, place as lexical_place, bm25 as score from lexical
        """
    least = "where 1 - v.distance >= :min_score" if statement.min_score else ""
    return f"""
        select coalesce(v.key, l.key) as key, coalesce(v.document_id, l.document_id) as document_id,
               coalesce(v.ord, l.ord) as ord, 1 - v.distance as cosine, v.place as semantic_place,
               l.bm25, l.place as lexical_place, {_fusion(statement.fusion)} as score
        from semantic v full join lexical l on l.document_id = v.document_id and l.ord = v.ord {least}
    """


def _fusion(fusion: Fusion) -> str:
    if fusion.method is FusionMethod.RRF:
        both = " + ".join(f"coalesce(1.0 / ({RRF_K} + {leg}.place), 0)" for leg in ("v", "l"))
        return f"cast(({both}) * {RRF_K + 1} / 2 as float8)"
    near = _scaled("v.distance", "max(distance)", "min(distance)", "semantic")
    worded = _scaled("l.bm25", "min(bm25)", "max(bm25)", "lexical")
    return f"{fusion.weight:.6f} * {near} + {1 - fusion.weight:.6f} * {worded}"


def _scaled(value: str, worst: str, best: str, leg: str) -> str:
    """Min-max over the candidates of a leg; 1 where all are equal, 0 for what the leg did not find."""
    worst, best = f"(select {worst} from {leg})", f"(select {best} from {leg})"
    return f"coalesce(case when {best} = {worst} then 1 else ({value} - {worst}) / ({best} - {worst}) end, 0)"


def _allowed(target: SearchTarget, only: str) -> str:
    if only == "true":
        return only
    return f"document_id in (select d.id from documents d where d.collection_id = {target.key:d} and {only})"


def _frequency(word: str, rank: str) -> str:
    """How often a passage has a word, from what ``ts_rank`` says of it."""
    if is_lone(word):  # the sum over the words that it begins, of which few come twice
        return f"round({BASEL} * cast({rank} as float8))"
    return f"round(1 / ({BASEL} * (1 - cast({rank} as float8))) - 0.5)"


def _tsquery(words: Sequence[str]) -> str:
    """Lexemes joined by OR, as a literal; they went through the parser once and must not go again."""
    quoted = "|".join(
        "'" + word.replace("\\", "\\\\").replace("'", "''") + "'" + (":*" if is_lone(word) else "") for word in words
    )
    return f"cast({_literal(quoted)} as tsquery)"


def _literal(text: str) -> str:
    # A colon would be taken for a parameter; the E'' form says it in another way.
    escaped = text.replace("\\", "\\\\").replace("'", "''").replace(":", "\\x3a").replace("%", "\\x25")
    return f"E'{escaped}'"


def _part(target: SearchTarget) -> Part:
    return Part(generation=target.generation.id, storage=target.generation.storage)
