"""``knowledge-worker eval`` as a process, on real servers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import make_url

from knowledge_worker.domain.ranking import WEIGHT_DEFAULT
from knowledge_worker.evaluation.temporary import DATABASE_PREFIX
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from ...conftest import TestServers
from ..managed.conftest import Make
from ..search.conftest import declared, indexed

CORPUS = {
    "leases": ("Leases", "A worker holds a lease while it reads the sources of a collection."),
    "fences": ("", "Every write carries a fence, so a stale worker writes nothing."),
    "tokens": ("Tokens", "Tokens\n\nWhoever writes needs a token with the permission to write."),
    "chunks": ("Chunks", "A document is cut into passages of two thousand characters."),
}
QUESTIONS = {"q1": "Who holds a lease?", "q2": "Which worker writes nothing?", "q3": "How long are passages?"}
DEFAULT = f"weight {WEIGHT_DEFAULT:g}"
RELEVANT = {"q1": "leases", "q2": "fences", "q3": "chunks"}

Eval = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def beir(tmp_path: Path) -> Path:
    """A folder as BEIR has it."""
    folder = tmp_path / "handbook"
    folder.mkdir()
    records = [{"_id": one, "title": title, "text": text} for one, (title, text) in CORPUS.items()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records))
    asked = [{"_id": one, "text": text} for one, text in QUESTIONS.items()]
    (folder / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in asked))
    judged = "".join(f"{one}\t{document}\t1\n" for one, document in RELEVANT.items())
    (folder / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


@pytest.fixture
def run(servers: TestServers, provider: ScriptedProvider, database_url: str, tmp_path: Path) -> Eval:
    """The command in a process of its own, whose provider is the scripted one."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("KNOWLEDGE_")},
        "PYTHONWARNINGS": "error",
        "KNOWLEDGE_DATABASE_URL": database_url,
        "KNOWLEDGE_REDIS_URL": servers.redis_url,
        "KNOWLEDGE_MODEL": "fake/model-a",
        "KNOWLEDGE_PROVIDERS": json.dumps({"fake": {"base_url": provider.base_url}}),
    }

    def start(*arguments: object, **changed: str | None) -> subprocess.CompletedProcess[str]:
        given = {name: value for name, value in {**environment, **changed}.items() if value is not None}
        return subprocess.run(
            [sys.executable, "-m", "knowledge_worker.cli", "eval", *map(str, arguments)],
            cwd=tmp_path,
            env=given,
            capture_output=True,
            text=True,
            check=False,
        )

    return start


def report(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The JSON of a run that went well."""
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def databases(servers: TestServers) -> list[str]:
    """Those that evaluations made."""
    with psycopg.connect(servers.database_url) as connection:
        rows = connection.execute("select datname from pg_database where starts_with(datname, %s)", [DATABASE_PREFIX])
        return [row[0] for row in rows]


def test_a_corpus_is_indexed_measured_and_gone(
    run: Eval, beir: Path, servers: TestServers, provider: ScriptedProvider, database_url: str
) -> None:
    ended = run(beir)

    assert ended.returncode == 0, ended.stderr
    lines = ended.stdout.splitlines()
    assert lines[:2] == ["3 questions", "handbook: 4 documents, 4 passages; fake/model-a, text-v1, simple"]
    heading = next(line for line in lines if line.startswith("mode"))
    assert heading.split() == ["mode", "nDCG@10", "95%", "recall@10", "95%", "MRR@10", "95%"]
    assert any(line.startswith("lexical") and " 1.0000 " in line for line in lines)
    assert any(line.startswith(f"hybrid {WEIGHT_DEFAULT:g} ") for line in lines)
    assert databases(servers) == []
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from collections").fetchone() == (0,)
    # The title stands above the text unless the text begins with it; each question became a vector once.
    assert provider.embedded["Leases\n\n" + CORPUS["leases"][1]] == 1
    assert provider.embedded[CORPUS["tokens"][1]] == 1
    assert [provider.embedded[text] for text in QUESTIONS.values()] == [1, 1, 1]


def test_as_json_with_every_question(run: Eval, beir: Path) -> None:
    found = report(run(beir, "--json", "--language", "english", "--seed", "7"))
    assert (found["format"], found["questions"], found["depth"], found["seed"]) == (1, 3, 10, 7)
    assert [one["mode"] for one in found["runs"]] == ["semantic", "lexical", "hybrid"]
    lexical = found["runs"][1]
    assert (lexical["collection"], lexical["model"], lexical["language"]) == ("handbook", "fake/model-a", "english")
    assert (lexical["documents"], lexical["passages"], lexical["chunker"]) == (4, 4, "text-v1")
    assert lexical["ndcg"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert set(lexical["perQuestion"]) == set(QUESTIONS)
    assert {(one["run"], one["against"]) for one in found["differences"]} == {
        (f"hybrid {WEIGHT_DEFAULT:g}", "semantic"),
        (f"hybrid {WEIGHT_DEFAULT:g}", "lexical"),
    }


def test_the_same_again_gives_the_same_figures(run: Eval, beir: Path) -> None:
    assert run(beir, "--json").stdout == run(beir, "--json").stdout


def test_models_and_fusions_side_by_side(run: Eval, beir: Path) -> None:
    found = report(
        run(beir, "--json", "--model", "fake/model-a", "--model", "none", "--fusion", "rrf", "--fusion", ".2")
    )
    assert [(one["label"], one["mode"], one["fusion"]) for one in found["runs"]] == [
        ("fake/model-a", "semantic", None),
        ("fake/model-a", "lexical", None),
        ("fake/model-a", "hybrid", DEFAULT),
        ("fake/model-a", "hybrid", "rrf"),
        ("fake/model-a", "hybrid", "weight 0.2"),
        ("none", "lexical", None),
    ]
    between = [one for one in found["differences"] if one["against"] == "fake/model-a"]
    assert [(one["run"], one["ndcg"]["mean"]) for one in between] == [("none, lexical", 0.0)]


def test_against_an_earlier_evaluation(run: Eval, beir: Path, tmp_path: Path) -> None:
    saved = tmp_path / "before.json"
    assert run(beir, "--save", saved).returncode == 0
    (beir / "corpus.jsonl").write_text(
        (beir / "corpus.jsonl").read_text().replace("A worker holds a lease", "Somebody")
    )
    found = report(run(beir, "--json", "--mode", "lexical", "--compare", saved))
    (since,) = found["differences"]
    assert (since["run"], since["against"], since["questions"]) == ("lexical", "earlier (fake/model-a, text-v1)", 3)
    assert since["ndcg"]["mean"] < 0
    assert since["ndcg"]["low"] <= since["ndcg"]["mean"] <= since["ndcg"]["high"]
    assert since["ndcg"]["p"] > 0.05, "one question of three may be chance"


def test_what_cannot_be_compared(run: Eval, beir: Path, tmp_path: Path) -> None:
    saved = tmp_path / "before.json"
    assert run(beir, "--mode", "lexical", "--save", saved).returncode == 0
    other_mode = run(beir, "--mode", "semantic", "--compare", saved)
    assert (other_mode.returncode, "no run of the same mode" in other_mode.stderr) == (2, True)
    saved.write_text(re.sub(r'"q(\d)"', r'"other-\1"', saved.read_text()))
    other_questions = run(beir, "--mode", "lexical", "--compare", saved)
    assert (other_questions.returncode, "shares no question id" in other_questions.stderr) == (2, True)
    no_report = run(beir, "--compare", beir / "qrels.tsv")
    assert (no_report.returncode, "is no evaluation" in no_report.stderr) == (2, True)


def test_a_threshold_for_ci(run: Eval, beir: Path) -> None:
    judged = (beir / "qrels.tsv").read_text()
    assert run(beir, "--mode", "lexical", "--min-ndcg", "0.9").returncode == 0
    (beir / "qrels.tsv").write_text(judged.replace("q3\tchunks", "q3\ttokens"))
    short = run(beir, "--mode", "lexical", "--min-ndcg", "0.9")
    assert short.returncode == 1
    assert "Error: nDCG@10 of handbook, lexical, is 0." in short.stderr
    assert "--min-ndcg asks for 0.9." in short.stderr


def test_collections_that_exist_are_asked_as_they_are(run: Eval, make: Make, tmp_path: Path) -> None:
    texts = {one: text for one, (_, text) in CORPUS.items()}
    indexed(make, declared("handbook", texts), declared("words", texts, model=None))
    file = tmp_path / "questions.tsv"
    file.write_text("".join(f"{QUESTIONS[one]}\t{document}\n" for one, document in RELEVANT.items()))
    found = report(run(file, "--json", "--collection", "handbook", "--collection", "words"))
    assert [(one["label"], one["mode"]) for one in found["runs"]] == [
        ("handbook", "semantic"),
        ("handbook", "lexical"),
        ("handbook", "hybrid"),
        ("words", "lexical"),
    ]
    file.write_text("Who holds a lease?\tleases.md\n")
    wrong = run(file, "--collection", "handbook")
    assert wrong.returncode == 2
    assert '1 of 1 relevant documents are not in "handbook": "leases.md".' in wrong.stderr
    assert run(file, "--collection", "handbook", "--allow-missing").returncode == 0
    unknown = run(file, "--collection", "nowhere")
    assert (unknown.returncode, "nowhere" in unknown.stderr) == (3, True)


def test_what_the_command_cannot_do_is_said(run: Eval, beir: Path) -> None:
    both = run(beir, "--collection", "handbook", "--model", "none")
    assert (both.returncode, "leave out --corpus, --model and --language" in both.stderr) == (2, True)
    weight = run(beir, "--fusion", "1.5")
    assert (weight.returncode, "neither rrf nor a weight" in weight.stderr) == (2, True)
    model = run(beir, "--model", "nobody/knows")
    assert (model.returncode, "nobody" in model.stderr) == (2, True)
    (beir / "corpus.jsonl").write_text('{"_id": "a", "text": "A."}\n{"id": "b", "text": "B."}\n')
    line = run(beir)
    assert (line.returncode, 'corpus.jsonl:2 has no text "_id"' in line.stderr) == (2, True)
    (beir / "corpus.jsonl").unlink()
    none = run(beir)
    assert (none.returncode, "Name the --collection to ask, or the --corpus" in none.stderr) == (2, True)


def test_a_provider_that_fails_ends_it_and_leaves_nothing(
    run: Eval, beir: Path, provider: ScriptedProvider, servers: TestServers
) -> None:
    provider.script(Rule(status=401))
    ended = run(beir)
    assert ended.returncode == 1
    assert "The corpus could not be indexed" in ended.stderr
    assert databases(servers) == []


def test_a_user_who_may_not_create_databases_is_told(run: Eval, beir: Path, servers: TestServers) -> None:
    with psycopg.connect(servers.database_url) as connection:
        may = connection.execute("select rolcreaterole or rolsuper from pg_roles where rolname = user").fetchone()
    if may != (True,):
        pytest.skip("this server's user may not create roles")
    with psycopg.connect(servers.database_url, autocommit=True) as connection:
        connection.execute("create role kw_eval_reader login password 'reader'")
        try:
            url = make_url(servers.database_url).set(username="kw_eval_reader", password="reader")
            ended = run(beir, KNOWLEDGE_DATABASE_URL=url.render_as_string(hide_password=False))
        finally:
            connection.execute("drop role kw_eval_reader")
    assert (ended.returncode, "give it CREATEDB" in ended.stderr) == (2, True)


def test_without_any_server_it_starts_one_of_its_own(run: Eval, beir: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    found = report(run(beir, "--json", KNOWLEDGE_DATABASE_URL=None, KNOWLEDGE_REDIS_URL=None, TMPDIR=str(temporary)))
    assert len(found["runs"]) == 3
    assert list(temporary.iterdir()) == []
