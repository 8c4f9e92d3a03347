"""Questions with their relevant documents, from files: a BEIR folder, JSONL or TSV."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from knowledge_worker.domain.limits import QUERY_MAX_CHARS
from knowledge_worker.errors import InvalidInputError

_SHOWN: Final = 3
_HASH_DIGITS: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question and what answers it.

    Attributes:
        id: names it in results, so that two evaluations can be compared question by question.
        text: 1 to 1000 characters.
        relevant: document id → grade, at least 1; not empty.
    """

    id: str
    text: str
    relevant: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuestionSet:
    """Questions in the order of their file.

    Attributes:
        notes: what a reader of the figures should know, such as questions that were left out.
    """

    questions: tuple[Question, ...]
    notes: tuple[str, ...] = ()

    @property
    def documents(self) -> frozenset[str]:
        """Every relevant document."""
        return frozenset(document for one in self.questions for document in one.relevant)


def read_questions(path: Path, *, split: str = "test") -> QuestionSet:
    """Read questions with their relevant documents.

    Args:
        path: a BEIR folder (``queries.jsonl`` with ``_id`` and ``text``; ``qrels.tsv`` or ``qrels/<split>.tsv`` with
            question id, document id and grade); or a file: ``.jsonl`` with ``{"question", "documents", "id"?}`` a line,
            ``documents`` a list of ids or an object of ids and grades; or ``.tsv`` with question, document id and, if
            not 1, grade a line, a question in as many lines as it has documents.
        split: of a folder with several.

    Raises:
        InvalidInputError: a file is missing or a line breaks a rule; the message names both.
    """
    if path.is_dir():
        return _of_folder(path, split)
    if not path.is_file():
        raise InvalidInputError(f"There is no file or folder {path}.", field="questions")
    match path.suffix:
        case ".jsonl":
            texts, relevant = _of_jsonl(path)
        case ".tsv":
            texts, relevant = _of_tsv(path)
        case _:
            raise InvalidInputError(
                f"{path} is neither a BEIR folder nor a .jsonl or .tsv file of questions.", field="questions"
            )
    return _question_set(texts, relevant, source=path)


def json_lines(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSONL file, each with the file and line to name it by; blank lines are passed over.

    Raises:
        InvalidInputError: a line is no JSON object, or the file cannot be read.
    """
    for where, line in _lines(path):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise InvalidInputError(f"{where} is no JSON object.", field="questions")
        yield where, cast("dict[str, Any]", value)


def text_of(record: Mapping[str, Any], key: str, where: str, *, blank: bool = False) -> str:
    """A text of a record.

    Raises:
        InvalidInputError: it is missing, no text, or blank where it may not be.
    """
    value = record.get(key)
    if not isinstance(value, str) or not (blank or value.strip()):
        raise InvalidInputError(f'{where} has no text "{key}".', field="questions")
    return value


def _of_folder(folder: Path, split: str) -> QuestionSet:
    texts: dict[str, str] = {}
    for where, record in json_lines(_existing(folder / "queries.jsonl")):
        identifier = text_of(record, "_id", where)
        if identifier in texts:
            raise InvalidInputError(f'{where}: the question "{identifier}" stands there twice.', field="questions")
        texts[identifier] = text_of(record, "text", where)
    flat = folder / "qrels.tsv"
    judged = _existing(flat if flat.exists() else folder / "qrels" / f"{split}.tsv")
    relevant: dict[str, dict[str, int]] = {}
    unknown: dict[str, str] = {}
    for where, cells in _cells(judged, header="query-id"):
        if len(cells) != 3:
            raise InvalidInputError(
                f"{where} has {len(cells)} columns; three are expected: question id, document id, grade.",
                field="questions",
            )
        identifier, document, grade = cells
        if identifier not in texts:
            unknown.setdefault(identifier, where)
        relevant.setdefault(identifier, {})[document] = _grade(grade, where)
    if unknown:
        raise InvalidInputError(
            f"{judged} judges {len(unknown)} of {len(relevant)} questions that are not in {folder / 'queries.jsonl'}: "
            f"{some(unknown)}. The two files belong to different sets, or ids were changed in one of them.",
            field="questions",
        )
    return _question_set(texts, relevant, source=judged)


def _of_jsonl(path: Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    texts: dict[str, str] = {}
    relevant: dict[str, dict[str, int]] = {}
    for where, record in json_lines(path):
        text = text_of(record, "question", where)
        identifier = text_of(record, "id", where) if "id" in record else _made_id(text)
        if identifier in texts:
            raise InvalidInputError(f'{where}: the question "{identifier}" stands there twice.', field="questions")
        given = record.get("documents")
        grades: dict[Any, Any] = (
            dict.fromkeys(cast("list[Any]", given), 1)
            if isinstance(given, list) and all(isinstance(one, str) for one in cast("list[Any]", given))
            else cast("dict[Any, Any]", given)
            if isinstance(given, dict)
            else {}
        )
        if not grades:
            raise InvalidInputError(
                f'{where}: "documents" is a list of document ids, or an object of ids and grades; not empty.',
                field="questions",
            )
        texts[identifier] = text
        relevant[identifier] = {document: _grade(grade, where) for document, grade in grades.items()}
    return texts, relevant


def _of_tsv(path: Path) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    texts: dict[str, str] = {}
    relevant: dict[str, dict[str, int]] = {}
    for where, cells in _cells(path, header="question"):
        if len(cells) not in (2, 3) or not all(cells):
            raise InvalidInputError(
                f"{where}: two or three columns are expected: question, document id and, if not 1, a grade.",
                field="questions",
            )
        text, document, *grade = cells
        identifier = _made_id(text)
        texts[identifier] = text
        relevant.setdefault(identifier, {})[document] = _grade(grade[0] if grade else 1, where)
    return texts, relevant


def _question_set(texts: Mapping[str, str], relevant: Mapping[str, Mapping[str, int]], *, source: Path) -> QuestionSet:
    notes: list[str] = []
    questions: list[Question] = []
    for identifier, text in texts.items():
        grades = {document: grade for document, grade in relevant.get(identifier, {}).items() if grade > 0}
        if grades:
            questions.append(Question(id=identifier, text=text[:QUERY_MAX_CHARS], relevant=grades))
    if not questions:
        raise InvalidInputError(f"{source} names no relevant document for any question.", field="questions")
    if left_out := len(texts) - len(questions):
        notes.append(f"{left_out} of {len(texts)} questions are left out: no document is said to be relevant to them.")
    if cut := sum(len(texts[one.id]) > QUERY_MAX_CHARS for one in questions):
        notes.append(f"{cut} questions are cut at {QUERY_MAX_CHARS} characters, the most a search takes.")
    return QuestionSet(questions=tuple(questions), notes=tuple(notes))


def some(names: Mapping[str, object] | list[str]) -> str:
    """The first few of several names, for a message."""
    shown = ", ".join(f'"{name}"' for name in list(names)[:_SHOWN])
    return shown + (", …" if len(names) > _SHOWN else "")


def _existing(file: Path) -> Path:
    if not file.is_file():
        raise InvalidInputError(
            f"There is no file {file}; a BEIR folder has queries.jsonl, corpus.jsonl, and qrels.tsv or "
            "qrels/<split>.tsv.",
            field="questions",
        )
    return file


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    try:
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield f"{path}:{number}", line.rstrip("\r\n")
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}.", field="questions") from error
    except UnicodeDecodeError:
        raise InvalidInputError(f"{path} is not UTF-8.", field="questions") from None


def _cells(path: Path, *, header: str) -> Iterator[tuple[str, list[str]]]:
    for number, (where, line) in enumerate(_lines(path)):
        cells = [cell.strip() for cell in line.split("\t")]
        if number or cells[0].lower() != header:
            yield where, cells


def _grade(value: object, where: str) -> int:
    try:
        number = float(cast("Any", value))
    except (TypeError, ValueError):
        number = 0.5
    if not number.is_integer():
        raise InvalidInputError(f"{where}: a grade is a whole number; 0 is not relevant.", field="questions")
    return int(number)


def _made_id(text: str) -> str:
    """Of the text alone, so that it stays the same when other questions come or go."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:_HASH_DIGITS]
