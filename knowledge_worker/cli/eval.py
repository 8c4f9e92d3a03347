"""``knowledge-worker eval QUESTIONS``: how well collections answer questions whose relevant documents are known."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from knowledge_worker.cli import exit_codes
from knowledge_worker.cli.options import json_option, opened, set_up_logging, settings_from, shared_options
from knowledge_worker.cli.output import counted, safe_line, table
from knowledge_worker.cli.progress import Progress, shown_progress

if TYPE_CHECKING:
    from knowledge_worker.domain.collection import Collection
    from knowledge_worker.evaluation.questions import QuestionSet
    from knowledge_worker.evaluation.report import Report, RunReport
    from knowledge_worker.evaluation.statistics import Estimate
    from knowledge_worker.knowledge import Knowledge

CORPUS = "corpus.jsonl"
SAY_S = 15.0
MEASURES = ("ndcg", "recall", "mrr")


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A collection to ask.

    Attributes:
        label: what the table calls it.
        name: the collection.
        shown: the collection's name for people, or the folder of a corpus.
    """

    label: str
    name: str
    shown: str


def _checked_variants(_ctx: click.Context, _parameter: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for text in value:
        try:
            usable = text == "rrf" or 0 <= float(text) <= 1
        except ValueError:
            usable = False
        if not usable:
            raise click.BadParameter(f"{text} is neither rrf nor a weight from 0 to 1.")
    return value


@click.command(name="eval")
@click.argument("questions", type=click.Path(exists=True, path_type=Path))
@click.option("--collection", "collections", multiple=True, metavar="NAME", help="Ask this one; repeatable.")
@click.option(
    "--corpus",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Index these documents for the evaluation. Default, without --collection: corpus.jsonl of the folder.",
)
@click.option("--model", "models", multiple=True, metavar="MODEL", help="That the corpus is embedded with; repeatable.")
@click.option("--language", metavar="LANGUAGE", help="Of the corpus, for the search by words. Default: simple")
@click.option("--split", default="test", show_default=True, help="Of a folder with several: qrels/SPLIT.tsv.")
@click.option(
    "--mode",
    "modes",
    multiple=True,
    type=click.Choice(["hybrid", "semantic", "lexical"]),
    help="Ask in this mode; repeatable. Default: all that the collection can be searched in.",
)
@click.option(
    "--fusion",
    "variants",
    multiple=True,
    callback=_checked_variants,
    metavar="rrf|WEIGHT",
    help="Ask in hybrid mode with this fusion, too: rrf, or the weight of meaning, 0 to 1; repeatable.",
)
@click.option(
    "--compare",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Compare with an evaluation that was saved before, question by question.",
)
@click.option("--save", type=click.Path(dir_okay=False, path_type=Path), help="Write the evaluation there as JSON.")
@click.option(
    "--min-ndcg",
    type=click.FloatRange(0, 1),
    metavar="NDCG",
    help="Exit code 1 when nDCG@10 is less: of hybrid where it is asked, else of every mode.",
)
@click.option("--allow-missing", is_flag=True, help="Relevant documents that are not there count as not found.")
@click.option("--seed", type=click.IntRange(0), help="Of the confidence intervals.")
@json_option
@shared_options
@click.pass_context
def eval(  # noqa: A001 - the command's name
    ctx: click.Context,
    questions: Path,
    *,
    collections: tuple[str, ...],
    corpus: Path | None,
    models: tuple[str, ...],
    language: str | None,
    split: str,
    modes: tuple[str, ...],
    variants: tuple[str, ...],
    compare: Path | None,
    save: Path | None,
    min_ndcg: float | None,
    allow_missing: bool,
    seed: int | None,
    as_json: bool,
) -> None:
    """Ask QUESTIONS whose relevant documents are known, and measure the answers.

    QUESTIONS is a BEIR folder (queries.jsonl, qrels.tsv or qrels/test.tsv, corpus.jsonl) or a file: JSONL with
    {"question", "documents"} a line, or TSV with question and document id. They are asked of collections that exist
    (--collection), or of the corpus, which is indexed for this in a database of its own that is dropped afterwards.

    Prints nDCG@10, recall@10 and MRR@10 of each mode with 95 % confidence intervals, and what the modes, collections,
    models or an earlier evaluation (--compare) differ in, with how likely chance alone gives as much.
    """
    if collections and (corpus or models or language):
        raise click.UsageError("--collection is searched as it is: leave out --corpus, --model and --language.")
    from knowledge_worker.evaluation.questions import read_questions
    from knowledge_worker.evaluation.report import read_report, report_of
    from knowledge_worker.evaluation.statistics import SEED

    asked = read_questions(questions, split=split)
    earlier = None if compare is None else read_report(compare)
    seed = SEED if seed is None else seed
    with shown_progress("eval", shown=not as_json or sys.stderr.isatty(), say_s=SAY_S) as progress:
        if collections:
            named = [Target(label=one, name=one, shown=one) for one in collections]
            opening = _existing(ctx, named)
        else:
            opening = _indexed(ctx, _corpus_of(questions, corpus), models, language, progress)
        with opening as (targets, open_knowledge):
            runs, notes = _ask(
                targets,
                open_knowledge,
                asked,
                modes=modes,
                variants=variants,
                allow_missing=allow_missing,
                progress=progress,
                seed=seed,
            )
    report = report_of(asked, runs, notes=notes, earlier=earlier, seed=seed)
    text = report.model_dump_json(by_alias=True)
    if save is not None:
        save.write_text(text + "\n", encoding="utf-8")
    if as_json:
        click.echo(text)
    else:
        _show(report)
    ctx.exit(_verdict(report, min_ndcg))


Open = Callable[[str | None], Any]
"""A context with the Knowledge that searches with a variant of the hybrid mode, None for what the settings say."""


@contextmanager
def _existing(ctx: click.Context, targets: Sequence[Target]) -> Generator[tuple[Sequence[Target], Open]]:
    yield targets, lambda variant: opened(settings_from(ctx, **_settings_of(variant)))


@contextmanager
def _indexed(
    ctx: click.Context, corpus: Path, models: Sequence[str], language: str | None, progress: Progress
) -> Generator[tuple[Sequence[Target], Open]]:
    from knowledge_worker.domain.language import SIMPLE
    from knowledge_worker.evaluation.temporary import collection_of, index_corpus, temporary_database
    from knowledge_worker.loading import DEFAULT_LOCAL_MODEL

    settings = settings_from(ctx, needs=())
    set_up_logging(settings, server=False)
    named = list(models) or [settings.model or DEFAULT_LOCAL_MODEL]

    def on_progress(collection: Collection) -> None:
        counts = collection.documents
        place = int(collection.name.rpartition("-")[2]) - 1
        text = f"{named[place]}: {counts.ready} of {counts.total} documents embedded"
        progress.show(text, done=counts.ready + counts.failed, total=counts.total or None)

    with ExitStack() as stack:
        settings = stack.enter_context(temporary_database(settings))
        knowledge = index_corpus(corpus, settings, models=named, language=language or SIMPLE, on_progress=on_progress)
        stack.callback(knowledge.close)

        @contextmanager
        def open_knowledge(variant: str | None) -> Generator[Knowledge]:
            searching = settings_from(ctx, needs=(), **_settings_of(variant))
            other = knowledge.with_settings(searching.model_copy(update={"database_url": settings.database_url}))
            try:
                yield other
            finally:
                other.close()

        shown = corpus.resolve().parent.name
        labels = named if len(named) > 1 else [shown]
        yield (
            [Target(label=label, name=collection_of(place), shown=shown) for place, label in enumerate(labels)],
            open_knowledge,
        )


def _settings_of(variant: str | None) -> dict[str, Any]:
    if variant is None:
        return {}
    if variant == "rrf":
        return {"hybrid_fusion": variant}
    return {"hybrid_fusion": "weighted", "hybrid_weight": float(variant)}


def _corpus_of(questions: Path, corpus: Path | None) -> Path:
    if corpus is None and not (questions / CORPUS).is_file():
        raise click.UsageError(
            f"Name the --collection to ask, or the --corpus to index; {questions} has no {CORPUS} of its own."
        )
    return corpus or questions / CORPUS


def _ask(
    targets: Sequence[Target],
    open_knowledge: Open,
    questions: QuestionSet,
    *,
    modes: Sequence[str],
    variants: Sequence[str],
    allow_missing: bool,
    progress: Progress,
    seed: int,
) -> tuple[list[RunReport], list[str]]:
    """The runs, those of one target beside each other, and notes on the targets."""
    from knowledge_worker.domain.collection import NO_MODEL
    from knowledge_worker.evaluation.report import notes_of, run_report
    from knowledge_worker.evaluation.runs import evaluate

    runs: dict[str, list[RunReport]] = {target.label: [] for target in targets}
    notes: list[str] = []
    for variant in (None, *dict.fromkeys(variants)):
        with open_knowledge(variant) as knowledge:
            for target in targets:
                if variant is not None and runs[target.label][0].model == NO_MODEL:
                    continue
                done = 0

                def on_question(total: int, target: Target = target) -> None:
                    nonlocal done
                    done += 1
                    progress.show(f"{target.label}: {done} of {total} searches", done=done, total=total)

                found = evaluate(
                    knowledge,
                    target.name,
                    questions,
                    modes=modes if variant is None else ["hybrid"],
                    allow_missing=allow_missing or variant is not None,
                    on_question=on_question,
                )
                if variant is None:
                    notes += notes_of(found[0])
                runs[target.label] += [
                    run_report(one, label=target.label, collection=target.shown, variant=variant, seed=seed)
                    for one in found
                ]
    return [run for target in targets for run in runs[target.label]], notes


def _show(report: Report) -> None:
    several = len({run.label for run in report.runs}) > 1
    shown = dict.fromkeys(
        f"{run.collection}: {counted(run.documents, 'document')}, {counted(run.passages, 'passage')}; "
        f"{run.model}, {run.chunker}, {run.language}"
        for run in report.runs
    )
    click.echo("\n".join([counted(report.questions, "question"), *(safe_line(line) for line in shown), ""]))
    interval = f"{report.confidence:.0%}"
    figures = [f"{name}@{report.depth}" for name in ("nDCG", "recall", "MRR")]
    columns = [*(["of"] if several else []), "mode", *(cell for name in figures for cell in (name, interval))]
    rows = [
        [
            *([run.label] if several else []),
            run.shown_mode,
            *(cell for name in MEASURES for cell in _figure(getattr(run, name))),
        ]
        for run in report.runs
    ]
    click.echo(table(columns, rows, numbers=figures))
    if report.differences:
        click.echo()
        columns = ["against each other", "", "questions", figures[0], interval, "p by chance"]
        rows = [
            [one.run, one.against, str(one.questions), *_figure(one.ndcg, sign="+"), f"{one.ndcg.p:.4f}"]
            for one in report.differences
        ]
        click.echo(table(columns, rows, numbers=["questions", figures[0], "p by chance"]))
    for note in report.notes:
        click.echo(f"Note: {safe_line(note)}", err=True)


def _figure(value: Estimate, *, sign: str = "") -> list[str]:
    # Without blanks three figures fit into 80 columns; those with a sign stand alone and are clearer with them.
    between = " … " if sign else "–"
    return [f"{value.mean:{sign}.4f}", f"{value.low:{sign}.3f}{between}{value.high:{sign}.3f}"]


def _verdict(report: Report, min_ndcg: float | None) -> int:
    if min_ndcg is None:
        return exit_codes.OK
    hybrid = [run for run in report.runs if run.mode == "hybrid" and run.variant is None]
    short = [run for run in hybrid or report.runs if run.ndcg.mean < min_ndcg]
    for run in short:
        click.echo(
            f"Error: nDCG@{report.depth} of {safe_line(run.label)}, {run.shown_mode}, is {run.ndcg.mean:.4f}; "
            f"--min-ndcg asks for {min_ndcg:g}.",
            err=True,
        )
    return exit_codes.FAILED if short else exit_codes.OK
