"""Specification rules 3 to 6: what can be declared, and what is said about the rest."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from knowledge_worker.declarations import KnowledgeCollection, check_declarations, folder_collection
from knowledge_worker.errors import ConfigurationError, SourceError
from knowledge_worker.ports import EmbeddingModel
from knowledge_worker.sources.custom import define_knowledge_source
from knowledge_worker.sources.folder import folder

MODEL = "openai/text-embedding-3-small"


class Model:
    dimensions = 3
    max_inputs = 64

    def __init__(self, model_id: str) -> None:
        self.id = model_id

    def embed(self, texts: Any, *, purpose: Any, timeout_ms: int) -> Any:
        raise NotImplementedError


def declared(name: str = "handbook", **options: Any) -> KnowledgeCollection:
    return KnowledgeCollection(name, **{"model": MODEL, "sources": [folder("docs")], **options})


def test_a_declaration_keeps_its_options() -> None:
    collection = declared(resync_ms=60_000, title="Handbook", description="How we work", max_delete_ratio=1)

    assert (collection.name, collection.model, collection.model_id) == ("handbook", MODEL, MODEL)
    assert (collection.resync_ms, collection.title, collection.description) == (60_000, "Handbook", "How we work")
    assert collection.max_delete_ratio == 1.0
    assert len(collection.sources) == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        collection.name = "other"  # type: ignore[misc]


def test_a_model_object_is_used_as_it_is() -> None:
    model = Model("mine/tiny")
    assert isinstance(model, EmbeddingModel)

    collection = declared(model=model)

    assert collection.model is model
    assert collection.model_id == "mine/tiny"


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"name": "API Docs"}, '"api-docs"'),
        ({"name": "a--b"}, '"a-b"'),
        ({"name": ""}, "lowercase"),
        ({"name": "x" * 65}, "64"),
        ({"name": None}, "text"),
        ({"model": "gpt"}, "<provider>/<model id>"),
        ({"model": "/m"}, "<provider>/<model id>"),
        ({"model": "openai/"}, "<provider>/<model id>"),
        ({"model": "openai/a b"}, "<provider>/<model id>"),
        ({"model": "openai/a\n"}, "<provider>/<model id>"),
        ({"model": 7}, "EmbeddingModel"),
        ({"language": "klingon"}, "english"),
        ({"model": Model("nameless")}, "<provider>/<model id>"),
        ({"sources": []}, "empty"),
        ({"sources": folder("docs")}, "sources=["),
        ({"sources": "docs"}, "sources=["),
        ({"sources": None}, "sources=["),
        ({"sources": ["./docs"]}, 'folder("./docs")'),
        ({"sources": [Path("docs")]}, 'folder("docs")'),
        ({"sources": [lambda: []]}, "@define_knowledge_source"),
        ({"sources": [3]}, "define_knowledge_source"),
        ({"trusted": 1}, "trusted"),
        ({"resync_ms": 59_999}, "60000"),
        ({"resync_ms": 2_147_483_648}, "2147483647"),
        ({"resync_ms": True}, "whole number"),
        ({"resync_ms": 60_000.0}, "whole number"),
        ({"title": ""}, "title"),
        ({"title": "a\0b"}, "title"),
        ({"description": "\ud800"}, "description"),
        ({"max_delete_ratio": 1.1}, "max_delete_ratio"),
        ({"max_delete_ratio": float("nan")}, "max_delete_ratio"),
        ({"max_delete_ratio": True}, "max_delete_ratio"),
    ],
)
def test_a_bad_option_is_refused_in_one_line_that_says_what_to_write(options: dict[str, Any], hint: str) -> None:
    with pytest.raises(ConfigurationError) as refusal:
        declared(**options)

    assert hint in refusal.value.message
    assert "\n" not in refusal.value.message


def test_a_collection_is_trusted_when_all_its_sources_are_unless_it_says_so_itself() -> None:
    mixed = [folder("a"), folder("b", trusted=False)]

    assert declared(sources=mixed[:1]).trusted
    assert not declared(sources=mixed).trusted
    assert declared(sources=mixed, trusted=True).trusted
    assert not declared(sources=mixed[:1], trusted=False).trusted


def test_the_fingerprint_differs_when_anything_declared_differs() -> None:
    variants = [
        declared(),
        declared("other"),
        declared(model="openai/other"),
        declared(sources=[folder("a")]),
        declared(sources=[folder("docs"), folder("a")]),
        declared(sources=[folder("a"), folder("docs")]),
        declared(trusted=False),
        declared(resync_ms=60_000),
        declared(title="T"),
        declared(description="D"),
        declared(max_delete_ratio=0.5),
        declared(language="english"),
    ]
    prints = [variant.fingerprint("text-v1", None) for variant in variants]
    prints += [declared().fingerprint("text-v2", None), declared().fingerprint("text-v1", "r1")]

    assert len(set(prints)) == len(prints)
    assert declared().fingerprint("text-v1", None) == prints[0]
    assert all(len(one) == 64 for one in prints)


def test_check_names_the_collection_and_the_source(tmp_path: Path) -> None:
    def raising(error: Exception) -> KnowledgeCollection:
        def check() -> None:
            raise error

        return declared(sources=[define_knowledge_source(list, kind="faq", check=check)])

    with pytest.raises(ConfigurationError, match=r'^Collection "handbook": folder ".*": there is no such directory'):
        declared(sources=[folder(tmp_path / "absent")]).check()
    with pytest.raises(ConfigurationError, match=r'^Collection "handbook": no table$'):
        raising(ConfigurationError("no table")).check()
    with pytest.raises(ConfigurationError, match=r'^Collection "handbook": .*source faq failed: OSError: down$'):
        raising(OSError("down\nsecret")).check()
    with pytest.raises(SourceError, match="later"):
        raising(SourceError("later")).check()
    assert declared(sources=[folder(tmp_path)]).check() is None


@pytest.mark.parametrize(
    ("called", "name", "title"),
    [("docs", "docs", None), ("My Notes", "my-notes", "My Notes"), ("Über_uns", "uber-uns", "Über_uns")],
)
def test_a_folder_collection_is_named_after_its_folder(tmp_path: Path, called: str, name: str, title: str) -> None:
    (tmp_path / called).mkdir()

    collection = folder_collection(tmp_path / called, MODEL)

    assert (collection.name, collection.title) == (name, title)


def test_a_folder_collection_of_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wiki" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "wiki" / "sub")

    assert folder_collection(".", MODEL).name == "sub"
    assert folder_collection("..", MODEL).name == "wiki"


def test_a_folder_collection_that_cannot_be_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "日本語").mkdir()

    with pytest.raises(ConfigurationError, match="there is no such directory"):
        folder_collection(tmp_path / "absent", MODEL)
    with pytest.raises(ConfigurationError, match="No collection name"):
        folder_collection(tmp_path / "日本語", MODEL)
    with pytest.raises(ConfigurationError, match="No collection name"):
        folder_collection("/", MODEL)


def test_a_name_declared_twice_is_refused() -> None:
    check_declarations([declared("a"), declared("b")])

    with pytest.raises(ConfigurationError, match='"a" is declared twice'):
        check_declarations([declared("a"), declared("b"), declared("a")])
    with pytest.raises(ConfigurationError, match="KnowledgeCollection"):
        check_declarations(["a"])  # type: ignore[list-item]
