"""Collections that exist, asked questions with known documents."""

from __future__ import annotations

import pytest

from knowledge_worker.domain.ranking import WEIGHT_DEFAULT, FusionMethod
from knowledge_worker.errors import CollectionNotReadyError, EmbeddingError, InvalidInputError, NotSearchableError
from knowledge_worker.evaluation import Question, QuestionSet, evaluate
from knowledge_worker.testing.provider import Rule, ScriptedProvider

from ..managed.conftest import Make
from ..search.conftest import declared, indexed

ANIMALS = {"cat": "the cat sat on the mat", "dog": "a dog ran far", "owl": "an owl sees at night, said the cat"}


def asked(*questions: tuple[str, dict[str, int]]) -> QuestionSet:
    """Questions numbered from q0 on."""
    return QuestionSet(
        questions=tuple(
            Question(id=f"q{number}", text=text, relevant=relevant) for number, (text, relevant) in enumerate(questions)
        )
    )


def test_every_mode_is_scored_by_what_a_search_answers(make: Make) -> None:
    knowledge = indexed(make, declared("animals", ANIMALS))
    questions = asked(("cat mat", {"cat": 1}), ("owl night", {"dog": 1}), ("cat", {"cat": 1, "owl": 1}))
    calls: list[int] = []

    runs = evaluate(knowledge, "animals", questions, on_question=calls.append)

    assert [run.mode for run in runs] == ["semantic", "lexical", "hybrid"]
    assert calls == [9] * 9
    by_words = runs[1].scores
    assert by_words["q0"] == (1, 1, 1)
    assert by_words["q1"] == (0, 0, 0)  # no word of it is in "dog"
    assert by_words["q2"] == (1, 1, 1)
    assert runs[0].scores["q0"] == runs[2].scores["q0"] == (1, 1, 1)
    assert 0 < runs[0].scores["q1"].mrr <= 0.5  # found by meaning, behind "owl"
    assert runs[2].fusion is not None
    assert (runs[2].fusion.method, runs[2].fusion.weight) == (FusionMethod.WEIGHTED, WEIGHT_DEFAULT)
    assert runs[0].collection.chunks == 3


def test_a_document_ranks_where_its_best_passage_does(make: Make) -> None:
    long = "\n\n".join(f"river stone number{number} " + "amber slow light. " * 60 for number in range(20))
    knowledge = indexed(make, declared("docs", {"long": long, **{f"d{n}": f"a river of {n}" for n in range(8)}}))
    assert knowledge.collection("docs").chunks > 15
    (run,) = evaluate(knowledge, "docs", asked(("river amber", {"d0": 1, "d7": 1})), modes=["lexical"])
    # The many passages of one document take one place: all nine documents are ranked.
    assert run.scores["q0"].recall == 1


def test_the_settings_decide_how_hybrid_is_fused(make: Make) -> None:
    knowledge = indexed(make, declared("animals", ANIMALS), hybrid_fusion="rrf")
    (run,) = evaluate(knowledge, "animals", asked(("cat", {"cat": 1})), modes=["hybrid"])
    assert run.fusion is not None
    assert run.fusion.method is FusionMethod.RRF


def test_documents_that_are_not_there_are_named_beside_those_that_are(make: Make) -> None:
    knowledge = indexed(make, declared("animals", {f"docs/{one}": text for one, text in ANIMALS.items()}))
    questions = asked(("cat", {"cat": 1, "docs/owl": 1}), ("dog", {"dog": 1}))
    with pytest.raises(InvalidInputError) as refused:
        evaluate(knowledge, "animals", questions)
    assert '2 of 3 relevant documents are not in "animals": "cat", "dog".' in refused.value.message
    assert 'Its ids look like "docs/cat", "docs/dog", "docs/owl".' in refused.value.message

    (run,) = evaluate(knowledge, "animals", questions, modes=["lexical"], allow_missing=True)
    assert (run.scores["q0"].recall, run.scores["q1"].recall) == (0.5, 0)


def test_a_collection_without_a_model_is_asked_by_words_only(make: Make) -> None:
    knowledge = indexed(make, declared("animals", ANIMALS, model=None))
    questions = asked(("cat mat", {"cat": 1}))
    assert [run.mode for run in evaluate(knowledge, "animals", questions)] == ["lexical"]
    with pytest.raises(NotSearchableError, match="has no model"):
        evaluate(knowledge, "animals", questions, modes=["semantic"])


def test_a_collection_that_was_never_indexed(make: Make) -> None:
    with pytest.raises(CollectionNotReadyError):
        evaluate(make(declared("animals", ANIMALS)), "animals", asked(("cat", {"cat": 1})))


def test_words_alone_do_not_pass_for_both_when_the_provider_is_down(make: Make, provider: ScriptedProvider) -> None:
    knowledge = indexed(make, declared("animals", ANIMALS))
    provider.script(Rule(status=503))
    with pytest.raises(EmbeddingError):
        evaluate(knowledge, "animals", asked(("cat", {"cat": 1})), modes=["hybrid"])
