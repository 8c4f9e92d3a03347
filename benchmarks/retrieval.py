"""How good the search is on public sets, and whether hybrid keeps what it promises.

Usage: ``python benchmarks/retrieval.py [--model MODEL]... [--check] FOLDER[:LANGUAGE]...``, each folder in the layout
of BEIR, with the language of its texts where they have one. The bars are of ``docs/decisions/0006-fusion.md``: hybrid
loses at most 0.01 to the better of its legs on each folder and wins over both on their mean; with static vectors, which
know words only, it loses at most 0.01 to the words.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from harness import Report

from knowledge_worker.config import Settings
from knowledge_worker.domain.language import SIMPLE
from knowledge_worker.evaluation import evaluate, read_questions
from knowledge_worker.evaluation.temporary import collection_of, index_corpus, temporary_database
from knowledge_worker.log import configure_logging

MODELS = ("local/wordllama", "local/all-minilm-l6-v2")
STATIC = "local/wordllama"
LOST = 0.01
"""nDCG@10 that hybrid may lose."""


def ndcg_of_modes(folder: Path, language: str, model: str) -> dict[str, float]:
    """Mode → mean nDCG@10."""
    questions = read_questions(folder)
    with temporary_database(Settings()) as settings:
        knowledge = index_corpus(folder / "corpus.jsonl", settings, models=[model], language=language)
        try:
            runs = evaluate(knowledge, collection_of(0), questions)
        finally:
            knowledge.close()
    return {str(run.mode): float(np.mean([one.ndcg for one in run.scores.values()])) for run in runs}


def add(report: Report, what: str, found: dict[str, float], *, least: float, bar: str) -> None:
    """A line a mode, and the bar at that of hybrid."""
    for mode in ("semantic", "lexical"):
        report.add(f"{what}, {mode}", f"{found[mode]:.4f}")
    report.add(f"{what}, hybrid", f"{found['hybrid']:.4f}", bar=f"{bar} {least:.4f}", ok=found["hybrid"] >= least)


def measure(model: str, folders: list[tuple[Path, str]], report: Report) -> None:
    """All folders with one model, and their mean."""
    every = [ndcg_of_modes(folder, language, model) for folder, language in folders]
    for (folder, language), found in zip(folders, every, strict=True):
        better = found["lexical"] if model == STATIC else max(found["lexical"], found["semantic"])
        add(report, f"{model}, {folder.name} ({language})", found, least=better - LOST, bar="at least")
    mean = {mode: float(np.mean([found[mode] for found in every])) for mode in every[0]}
    least = mean["lexical"] - LOST if model == STATIC else max(mean["lexical"], mean["semantic"])
    add(report, f"{model}, mean", mean, least=least, bar="at least")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", metavar="FOLDER[:LANGUAGE]")
    parser.add_argument("--model", action="append", dest="models", help="repeatable; default: both local ones")
    parser.add_argument("--check", action="store_true", help="exit code 1 when a bar is missed")
    options = parser.parse_args()
    configure_logging(log_format="console", level="warning")
    folders = [
        (Path(name), language or SIMPLE) for name, _, language in (one.partition(":") for one in options.folders)
    ]
    report = Report()
    for model in options.models or MODELS:
        measure(model, folders, report)
    report.show()
    return report.status(check=options.check)


if __name__ == "__main__":
    sys.exit(main())
