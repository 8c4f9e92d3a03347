"""Files of questions: what they may look like, and what is said of those that do not."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from knowledge_worker.errors import InvalidInputError
from knowledge_worker.evaluation import read_questions

Write = Callable[..., Path]

QUERIES: Sequence[dict[str, Any]] = (
    {"_id": "q1", "text": "How long is a lease?"},
    {"_id": "q2", "text": "Who may write?"},
    {"_id": "train-7", "text": "Nobody judged this."},
)
JUDGED = "query-id\tcorpus-id\tscore\nq1\tleases.md\t2\nq1\tlocks.md\t0\nq2\ttokens.md\t1\n"


@pytest.fixture
def folder(tmp_path: Path) -> Write:
    def write(queries: Sequence[dict[str, Any]] = QUERIES, judged: str = JUDGED, name: str = "qrels.tsv") -> Path:
        (tmp_path / "queries.jsonl").write_text("".join(json.dumps(one) + "\n" for one in queries))
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(judged)
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("name", "split"), [("qrels.tsv", "test"), ("qrels/test.tsv", "test"), ("qrels/dev.tsv", "dev")]
)
def test_a_beir_folder(folder: Write, name: str, split: str) -> None:
    found = read_questions(folder(name=name), split=split)
    assert [(one.id, one.text, one.relevant) for one in found.questions] == [
        ("q1", "How long is a lease?", {"leases.md": 2}),
        ("q2", "Who may write?", {"tokens.md": 1}),
    ]
    assert found.documents == {"leases.md", "tokens.md"}
    assert found.notes == ("1 of 3 questions are left out: no document is said to be relevant to them.",)


def test_judgements_without_a_heading(folder: Write) -> None:
    found = read_questions(folder(judged=JUDGED.partition("\n")[2]))
    assert [one.relevant for one in found.questions] == [{"leases.md": 2}, {"tokens.md": 1}]


def test_a_long_question_is_cut_and_said(folder: Write) -> None:
    found = read_questions(folder([{"_id": "q1", "text": "why " * 300}], "q1\td\t1\n"))
    assert len(found.questions[0].text) == 1000
    assert found.notes == ("1 questions are cut at 1000 characters, the most a search takes.",)


def test_a_file_of_json_lines(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    file.write_text(
        '{"id": "lease", "question": "How long?", "documents": ["leases.md", "locks.md"]}\n\n'
        '{"question": "Who may write?", "documents": {"tokens.md": 3, "old.md": 0}}\n'
    )
    first, second = read_questions(file).questions
    assert (first.id, first.relevant) == ("lease", {"leases.md": 1, "locks.md": 1})
    assert second.relevant == {"tokens.md": 3}


def test_a_table_of_questions(tmp_path: Path) -> None:
    file = tmp_path / "questions.tsv"
    file.write_text("\ufeffquestion\tdocument\nHow long?\tleases.md\nHow long?\tlocks.md\t2\nWho?\ttokens.md\n")
    first, second = read_questions(file).questions
    assert (first.text, first.relevant) == ("How long?", {"leases.md": 1, "locks.md": 2})
    assert (second.text, second.relevant) == ("Who?", {"tokens.md": 1})


def test_an_id_that_is_made_stays_when_other_questions_come(tmp_path: Path) -> None:
    one, more = tmp_path / "one.tsv", tmp_path / "more.tsv"
    one.write_text("Who?\ttokens.md\n")
    more.write_text("How long?\tleases.md\nWho?\ttokens.md\n")
    assert read_questions(one).questions[0].id == read_questions(more).questions[1].id


@pytest.mark.parametrize(
    ("queries", "judged", "said"),
    [
        (QUERIES, "q1\td\t1\nx1\td\t1\nx2\td\t1\n", r'judges 2 of 3 questions that are not in .*: "x1", "x2"\. The'),
        ([*QUERIES, QUERIES[0]], JUDGED, r'queries\.jsonl:4: the question "q1" stands there twice'),
        ([{"id": "q1", "text": "a"}], JUDGED, r'queries\.jsonl:1 has no text "_id"'),
        ([{"_id": "q1", "text": " "}], JUDGED, r'queries\.jsonl:1 has no text "text"'),
        (QUERIES, "q1 0 d 1\n", r"qrels\.tsv:1 has 1 columns; three are expected"),
        (QUERIES, "q1\td\thigh\n", r"qrels\.tsv:1: a grade is a whole number"),
        (QUERIES, "q1\td\t0\n", r"names no relevant document for any question"),
    ],
)
def test_what_is_wrong_with_a_folder(folder: Write, queries: Sequence[dict[str, Any]], judged: str, said: str) -> None:
    with pytest.raises(InvalidInputError, match=said):
        read_questions(folder(queries, judged))


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("q.jsonl", "[1]\n", r"q\.jsonl:1 is no JSON object"),
        ("q.jsonl", '{"documents": ["d"]}\n', r'q\.jsonl:1 has no text "question"'),
        ("q.jsonl", '{"question": "Who?", "documents": []}\n', r'q\.jsonl:1: "documents" is a list'),
        ("q.jsonl", '{"question": "Who?", "documents": "d"}\n', r'q\.jsonl:1: "documents" is a list'),
        ("q.jsonl", '{"question": "Who?", "documents": {"d": 0.5}}\n', r"q\.jsonl:1: a grade is a whole number"),
        ("q.tsv", "Who?\n", r"q\.tsv:1: two or three columns"),
        ("q.tsv", "Who?\t\n", r"q\.tsv:1: two or three columns"),
        ("q.csv", "Who?,d\n", r"neither a BEIR folder nor a \.jsonl or \.tsv file"),
    ],
)
def test_what_is_wrong_with_a_file(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InvalidInputError, match=said):
        read_questions(tmp_path / name)


def test_a_folder_without_judgements_says_what_it_should_have(tmp_path: Path) -> None:
    (tmp_path / "queries.jsonl").write_text('{"_id": "q1", "text": "Who?"}\n')
    with pytest.raises(InvalidInputError, match=r"There is no file .*qrels/test\.tsv; a BEIR folder has"):
        read_questions(tmp_path)


def test_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    (tmp_path / "q.tsv").write_bytes("Größe?\td\n".encode("latin-1"))
    with pytest.raises(InvalidInputError, match=r"q\.tsv is not UTF-8"):
        read_questions(tmp_path / "q.tsv")
