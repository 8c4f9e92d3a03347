"""``knowledge-worker search QUERY``: find passages by words and meaning."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from knowledge_worker.cli.options import json_option, opened, settings_from, shared_options
from knowledge_worker.cli.output import echo_json, safe_line, safe_text, views, wrapped

if TYPE_CHECKING:
    from knowledge_worker.domain.match import Match

EXCERPT_CHARS = 280
INDENT = "       "
WIDEST = 100


@click.command()
@click.argument("query")
@click.option("--collection", "collections", multiple=True, metavar="NAME", help="Search only this one; repeatable.")
@click.option("--top-k", type=int, default=5, show_default=True, help="The most passages, 1 to 20.")
@click.option("--min-score", type=float, metavar="SCORE", help="Only passages of at least this cosine similarity.")
@click.option(
    "--mode",
    type=click.Choice(["hybrid", "semantic", "lexical"]),
    help="By words and meaning (hybrid), by meaning or by words alone. Default: hybrid; semantic with --min-score.",
)
@click.option(
    "--filter",
    "conditions",
    multiple=True,
    metavar="KEY=VALUE",
    help="Only documents with this in their metadata; VALUE is JSON or text. Repeatable: all must hold.",
)
@click.option("--id-prefix", metavar="TEXT", help="Only documents whose id begins so.")
@click.option("--source", metavar="TEXT", help="Only documents with this source.")
@click.option("--per-document", type=int, default=3, show_default=True, help="Of one document, before others run out.")
@click.option("--explain", is_flag=True, help="Print rank and score of each passage by meaning and by words.")
@click.option("--full", is_flag=True, help="Print whole passages instead of excerpts.")
@json_option
@shared_options
@click.pass_context
def search(
    ctx: click.Context,
    query: str,
    *,
    collections: tuple[str, ...],
    top_k: int,
    min_score: float | None,
    mode: str | None,
    conditions: tuple[str, ...],
    id_prefix: str | None,
    source: str | None,
    per_document: int,
    explain: bool,
    full: bool,
    as_json: bool,
) -> None:
    """Find the best passages for QUERY and say where they are."""
    filters = {"metadata": _metadata(conditions), "id_prefix": id_prefix, "source": source}
    with opened(settings_from(ctx)) as knowledge:
        result = knowledge.search(
            query,
            collections=collections or None,
            top_k=top_k,
            min_score=min_score,
            mode=mode,
            filters=filters,
            per_document=per_document,
            explain=explain,
        )
    if as_json:
        echo_json(views().search_view(result))
        return
    for match in result.matches:
        click.echo(shown_match(match, query, full=full))
        click.echo()
    if not result.matches:
        click.echo("No passage was found.")
    if result.degraded:
        click.echo(f"Searched by words alone: {safe_line(result.degraded)}", err=True)
    if result.truncated:
        click.echo("Some passages were left out to keep the answer short.", err=True)
    for each in result.unavailable:
        click.echo(f"Not searched: {safe_line(each.collection)}: {safe_line(each.reason)}", err=True)


def _metadata(conditions: Sequence[str]) -> dict[str, object]:
    """``KEY=VALUE`` as a filter; VALUE may be any JSON, such as ``{"gte": 2020}`` or ``["a", "b"]``."""
    metadata: dict[str, object] = {}
    for condition in conditions:
        key, equals, text = condition.partition("=")
        if not key or not equals:
            raise click.BadParameter("KEY=VALUE is expected.", param_hint="--filter")
        try:
            metadata[key] = json.loads(text)
        except (ValueError, RecursionError):
            metadata[key] = text
    return metadata


def shown_match(match: Match, query: str, *, full: bool) -> str:
    """A match for people: score and place, title and section, then the passage or an excerpt."""
    first, last = match.lines
    place = f"{match.collection}/{match.document}:{first}" + (f"-{last}" if last != first else "")
    lines = [f"{match.score:.3f}  {click.style(safe_line(place), bold=True)}"]
    headings = [heading for heading in (match.title, *match.section) if heading]
    path = [heading for number, heading in enumerate(headings) if number == 0 or heading != headings[number - 1]]
    if path:
        lines.append(INDENT + click.style(safe_line(" › ".join(path)), dim=True))
    if match.explanation is not None:
        lines.append(INDENT + click.style(_explained(match), dim=True))
    if full:
        lines += [(INDENT + line).rstrip() for line in safe_text(match.text).splitlines()]
    else:
        width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns) - len(INDENT)
        lines += [INDENT + line for line in wrapped(excerpt(match.text, query), width=max(20, width))]
    return "\n".join(lines)


def _explained(match: Match) -> str:
    told = match.explanation
    assert told is not None
    legs: list[str] = []
    if told.semantic_rank is not None and told.cosine is not None:
        legs.append(f"meaning: rank {told.semantic_rank}, cosine {told.cosine:.3f} ({safe_line(told.model or 'none')})")
    if told.lexical_rank is not None and told.bm25 is not None:
        legs.append(f"words: rank {told.lexical_rank}, BM25 {told.bm25:.2f}")
    return f"{match.score_kind}: " + "; ".join(legs)


def excerpt(text: str, query: str, *, max_chars: int = EXCERPT_CHARS) -> str:
    """The part of a passage with most words of the query, on one line, cut at words."""
    words = safe_line(text).split(" ")
    asked = {word for word in re.findall(r"\w+", query.lower()) if len(word) > 2}
    hits = [bool(asked.intersection(re.findall(r"\w+", word.lower()))) for word in words]
    best, best_hits, end, length, inside = (0, 0), -1, 0, 0, 0
    for start in range(len(words)):
        while end < len(words) and (length + len(words[end]) + 1 <= max_chars or end == start):
            length += len(words[end]) + 1
            inside += hits[end]
            end += 1
        if inside > best_hits:
            best, best_hits = (start, end), inside
        length -= len(words[start]) + 1
        inside -= hits[start]
    start, end = best
    part = " ".join(words[start:end])[: max_chars + 1]
    return f"{'… ' if start else ''}{part}{' …' if end < len(words) else ''}"
