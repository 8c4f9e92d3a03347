"""What commands ask for, print and exit with."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from knowledge_worker.cli import COMMANDS
from knowledge_worker.domain.collection import DocumentCounts
from knowledge_worker.domain.document import FailedDocument
from knowledge_worker.domain.match import Explanation, Match, SearchResult, Unavailable
from knowledge_worker.domain.ranking import ScoreKind
from knowledge_worker.errors import CollectionNotFoundError, CollectionNotReadyError, ServiceUnavailableError

from .conftest import FakeKnowledge, collection, pass_record

Call = Callable[..., Any]


def match(**values: Any) -> Match:
    plain: dict[str, Any] = {
        "collection": "handbook",
        "document": "leave/parental.md",
        "index": 0,
        "text": "Parents may take leave.\nAsk the office first.",
        "score": 0.8123,
        "title": "Parental leave",
        "section": ("Parental leave", "How to ask"),
        "lines": (10, 24),
        "trusted": True,
    }
    return Match(**{**plain, **values})


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_help_text(call: Call, name: str) -> None:
    ended = call(name, "--help")
    assert ended.code == 0
    assert f"knowledge-worker {name}" in ended.out


def test_the_help_lists_all_commands_options_with_variables_and_exit_codes(call: Call) -> None:
    out = call("--help").out
    assert all(name in out for name in COMMANDS)
    assert "KNOWLEDGE_APP" in out
    assert "130" in out


def test_status_shows_a_line_for_each_collection(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.stored = [
        collection("faq", error="The provider answered 503.", documents=DocumentCounts(pending=2, failed=1)),
        collection("handbook"),
    ]
    ended = call("status")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0].split()[:5] == ["COLLECTION", "STATUS", "DOCUMENTS", "PENDING", "FAILED"]
    assert lines[1].split()[:5] == ["faq", "ready", "3", "2", "1"]
    assert "The provider answered 503." in lines[1]
    assert "ok, " in lines[2]
    assert knowledge.closed


def test_status_without_collections_says_how_to_declare_one(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.stored = []
    assert "--docs" in call("status").out


def test_status_in_json_is_what_the_api_answers(call: Call, knowledge: FakeKnowledge) -> None:
    shown = json.loads(call("status", "--json").out)
    assert shown["data"][0]["name"] == "handbook"
    assert shown["data"][0]["documents"]["ready"] == 3
    assert shown["data"][0]["syncedAt"].startswith("2026-01-02T03:04:05")


def test_status_names_what_is_missing_and_what_to_look_at(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.missing, knowledge.worries = ['queue "sync": no worker consumes it'], ["claims: nobody takes them up"]
    lines = call("status").out.splitlines()
    assert lines[-2:] == ['Missing: queue "sync": no worker consumes it', "Warning: claims: nobody takes them up"]
    shown = json.loads(call("status", "--json").out)
    assert (shown["missing"], shown["warnings"]) == (knowledge.missing, knowledge.worries)


def test_sync_asks_and_returns(call: Call, knowledge: FakeKnowledge) -> None:
    ended = call("sync", "handbook", "--force", "--confirm-deletes")
    assert (ended.code, ended.out) == (0, "Asked for a pass over handbook.\n")
    assert knowledge.asked == [("sync", "handbook", True, True)]


def test_sync_waits_for_its_own_request(call: Call, knowledge: FakeKnowledge) -> None:
    ended = call("sync", "handbook", "--wait", "--timeout", "1.5")
    assert ended.code == 0
    assert knowledge.asked[1] == ("wait", "handbook", 2, 1500)
    assert "3 documents ready, 12 passages" in ended.out


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "-1", "1e300", "soon"])
def test_sync_waits_for_a_number_of_seconds_only(call: Call, knowledge: FakeKnowledge, seconds: str) -> None:
    ended = call("sync", "handbook", "--wait", "--timeout", seconds)
    assert ended.code == 2
    assert "--timeout" in ended.err
    assert knowledge.asked == []


def test_sync_that_waited_for_a_failed_pass_fails(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.stored = [collection(error="The provider answered 503.")]
    ended = call("sync", "handbook", "--wait")
    assert ended.code == 1
    assert "The provider answered 503." in ended.err


def test_search_shows_score_place_headings_and_excerpt(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.result = SearchResult(matches=(match(),))
    ended = call("search", "how do parents ask", "--collection", "handbook", "--top-k", "3", "--min-score", "0.2")
    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0] == "0.812  handbook/leave/parental.md:10-24"
    assert lines[1].strip() == "Parental leave › How to ask"
    assert lines[2].strip() == "Parents may take leave. Ask the office first."
    ((_, query, options),) = knowledge.asked
    assert query == "how do parents ask"
    assert options["filters"] == {"metadata": {}, "id_prefix": None, "source": None}
    asked = {name: value for name, value in options.items() if name in ("collections", "top_k", "min_score", "mode")}
    assert asked == {"collections": ("handbook",), "top_k": 3, "min_score": 0.2, "mode": None}


def test_search_takes_mode_and_filters(call: Call, knowledge: FakeKnowledge) -> None:
    told = Explanation(semantic_rank=2, cosine=0.5, lexical_rank=1, bm25=7.25, model="local/m")
    found = match().model_copy(update={"explanation": told, "score_kind": ScoreKind.FUSED})
    knowledge.result = SearchResult(matches=(found,), degraded="The provider is away.")
    filters = ["--filter", "team=support", "--filter", 'year={"gte": 2020}', "--filter", "n=7", "--id-prefix", "docs/"]
    ended = call("search", "leave", "--mode", "lexical", "--explain", "--per-document", "1", *filters)
    assert ended.code == 0
    ((_, _, options),) = knowledge.asked
    assert (options["mode"], options["explain"], options["per_document"]) == ("lexical", True, 1)
    metadata = {"team": "support", "year": {"gte": 2020}, "n": 7}
    assert options["filters"] == {"metadata": metadata, "id_prefix": "docs/", "source": None}
    assert "fused: meaning: rank 2, cosine 0.500 (local/m); words: rank 1, BM25 7.25" in ended.out
    assert "Searched by words alone: The provider is away." in ended.err
    assert call("search", "leave", "--filter", "nothing").code == 2
    nested = "[" * 50_000
    assert call("search", "leave", "--filter", f"team={nested}").code == 0
    assert knowledge.asked[-1][2]["filters"]["metadata"] == {"team": nested}


def test_search_prints_whole_passages_when_asked(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.result = SearchResult(matches=(match(text="first line\n" + "word " * 200 + "last"),))
    assert call("search", "word", "--full").out.splitlines()[-2].endswith("last")
    assert "last" not in call("search", "word").out


def test_text_of_documents_cannot_act_on_the_terminal(call: Call, knowledge: FakeKnowledge) -> None:
    evil = "\x1b]0;owned\x07 \x1b[2J text \u202e reversed \x9b1m"
    knowledge.result = SearchResult(matches=(match(text=evil, title=evil, document="a\x1b[31m.md"),))
    for argv in (["search", "text"], ["search", "text", "--full"]):
        out = call(*argv).out
        assert not {"\x1b", "\x07", "\x9b", "\u202e"}.intersection(out)
    assert "\x1b" not in call("search", "text", "--json").out


def test_search_says_what_was_not_searched(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.result = SearchResult(unavailable=(Unavailable(collection="faq", reason="It is not ready."),))
    ended = call("search", "anything")
    assert ended.out == "No passage was found.\n"
    assert ended.err == "Not searched: faq: It is not ready.\n"


def test_search_in_json_is_what_the_api_answers(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.result = SearchResult(matches=(match(),))
    shown = json.loads(call("search", "leave", "--json").out)
    assert shown["matches"][0]["document"] == "leave/parental.md"
    assert shown["matches"][0]["lines"] == [10, 24]


def test_passes_shows_a_table_and_what_the_newest_left_out(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.records = [pass_record(reports=("notes.md: not UTF-8",), reasons=("sub: cannot be listed",))]
    knowledge.failed = [FailedDocument(id="long.md", error="Passage 3 was refused")]
    ended = call("passes", "handbook", "--limit", "3")
    assert knowledge.asked == [("passes", "handbook", 3), ("failed_documents", "handbook", 20)]
    assert "Failed: long.md: Passage 3 was refused" in ended.out
    assert ended.out.splitlines()[1].split()[:3] == ["7", "request", "ok"]
    assert "Skipped: notes.md: not UTF-8" in ended.out
    assert "Incomplete: sub: cannot be listed" in ended.out
    assert json.loads(call("passes", "handbook", "--json").out)["data"][0]["counts"]["embedded"] == 12


def test_check_prints_each_problem_on_a_line(call: Call, knowledge: FakeKnowledge) -> None:
    assert call("check").out == "All is well.\n"
    knowledge.problems = ["first\nproblem", "second"]
    ended = call("check")
    assert (ended.code, ended.out) == (1, "first problem\nsecond\n")
    assert json.loads(call("check", "--json").out) == {"problems": ["first\nproblem", "second"], "servers": True}


def test_check_without_servers_looks_at_the_declarations_alone(
    call: Call, knowledge: FakeKnowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KNOWLEDGE_DATABASE_URL")
    ended = call("check")
    assert ended.code == 0
    assert knowledge.asked == [("check", False)]


def test_migrate_says_the_revision(call: Call, knowledge: FakeKnowledge) -> None:
    assert call("migrate").out == "The database is at revision 0001.\n"
    assert json.loads(call("migrate", "--json").out) == {"revision": "0001"}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (CollectionNotFoundError("faq"), 3),
        (CollectionNotReadyError("faq"), 1),
        (ServiceUnavailableError("PostgreSQL at localhost:5432 does not answer."), 4),
    ],
)
def test_an_expected_error_is_one_line_and_its_code(
    call: Call, knowledge: FakeKnowledge, error: Exception, code: int
) -> None:
    knowledge.error = error
    ended = call("search", "anything")
    assert (ended.code, ended.out, ended.err) == (code, "", f"Error: {error}\n")
    assert knowledge.closed


def test_a_bug_is_one_line_with_a_hint_and_a_traceback_at_debug(call: Call, knowledge: FakeKnowledge) -> None:
    knowledge.error = ZeroDivisionError("division by zero\nsecond line")
    ended = call("status")
    assert ended.code == 1
    assert ended.err == (
        "Error: unexpected ZeroDivisionError: division by zero (--log-level debug shows the traceback)\n"
    )
    assert "Traceback" in call("status", "--log-level", "debug").err


@pytest.mark.parametrize(("error", "code"), [(KeyboardInterrupt(), 130), (BrokenPipeError(), 0)])
def test_an_interrupt_and_a_reader_that_left_are_quiet(
    call: Call, knowledge: FakeKnowledge, error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("knowledge_worker.cli.running._reader_left", lambda: 0)
    knowledge.error = error
    ended = call("status")
    assert ended.code == code
    assert "Traceback" not in ended.err


def test_watching_ends_with_an_interrupt_as_it_should(call: Call, knowledge: FakeKnowledge, monkeypatch: Any) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("knowledge_worker.cli.status.time.sleep", interrupt)
    ended = call("status", "--watch")
    assert ended.code == 0
    assert "handbook" in ended.out


def test_an_unknown_command_is_wrong_use(call: Call) -> None:
    ended = call("serach", "x")
    assert ended.code == 2
    assert "No such command 'serach'" in ended.err
