"""How well a collection answers questions whose relevant documents are known."""

from knowledge_worker.evaluation.questions import Question, QuestionSet, read_questions
from knowledge_worker.evaluation.runs import Run, evaluate

__all__ = ["Question", "QuestionSet", "Run", "evaluate", "read_questions"]
