"""Applications and settings that cannot be used, said in one line by the real ``load_knowledge``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Call = Callable[..., Any]

APPLICATION = "from knowledge_worker import Knowledge\nknowledge = Knowledge()\nother = 7\n"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Write a module into the working directory; forget it afterwards."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    written: list[str] = []

    def write(name: str, text: str) -> None:
        written.append(name)
        (tmp_path / f"{name}.py").write_text(text)

    yield write
    for name in written:
        sys.modules.pop(name, None)


@pytest.fixture
def without_servers(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KNOWLEDGE_DATABASE_URL")
    monkeypatch.delenv("KNOWLEDGE_REDIS_URL")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("leaves0", "import sys\nsys.exit(0)\n", 'Loading "leaves0" failed: SystemExit: 0'),
        ("leaves3", "raise SystemExit(3)\n", 'Loading "leaves3" failed: SystemExit: 3'),
        ("breaks", "1 / 0\n", 'Loading "breaks" failed: ZeroDivisionError: division by zero'),
        ("lacks", "import brea\n", 'Loading "lacks" failed: no module named "brea".'),
    ],
)
def test_a_module_that_ends_while_it_loads_is_a_configuration_error(
    call: Call, module: Callable[[str, str], None], name: str, text: str, said: str
) -> None:
    module(name, text)
    ended = call("check", "--app", f"{name}:knowledge")
    assert (ended.code, ended.out) == (1, f"{said}\n")
    ended = call("status", "--app", f"{name}:knowledge")
    assert (ended.code, ended.err) == (2, f"Error: {said}\n")


def test_an_interrupt_while_a_module_loads_stays_one(call: Call, module: Callable[[str, str], None]) -> None:
    module("interrupted", "raise KeyboardInterrupt\n")
    assert call("check", "--app", "interrupted:knowledge").code == 130


def test_a_missing_module_whose_name_begins_like_the_application_is_named(
    call: Call, module: Callable[[str, str], None]
) -> None:
    module("goodness", "import good_that_is_not_there\n")
    assert 'no module named "good_that_is_not_there"' in call("check", "--app", "goodness:knowledge").out
    assert 'There is no module "nowhere.at_all"' in call("check", "--app", "nowhere.at_all:knowledge").out


def test_a_missing_attribute_is_named_with_those_that_could_be_meant(
    call: Call, module: Callable[[str, str], None]
) -> None:
    module("good", APPLICATION)
    said = call("check", "--app", "good:nope").out
    assert said == 'The module "good" has no attribute "nope". It has: knowledge.\n'
    assert '"good:other" is a int, not a Knowledge' in call("check", "--app", "good:other").out
    module("empty", "")
    assert "It holds no Knowledge" in call("check", "--app", "empty:nope").out


@pytest.mark.parametrize(
    ("target", "hint"),
    [
        ("./good.py:knowledge", "write good:knowledge."),
        ("good.py:knowledge", "write good:knowledge."),
        ("shop/good.py:knowledge", "write shop.good:knowledge."),
        ("../good.py:knowledge", "write good:knowledge."),
    ],
)
def test_a_file_instead_of_a_module_gets_a_hint(call: Call, target: str, hint: str) -> None:
    said = call("check", "--app", target).out
    assert said.endswith(f"{hint}\n")


@pytest.mark.usefixtures("without_servers")
@pytest.mark.parametrize("value", ["garbage-model", "/x", "x/", "a b/c"])
def test_a_default_model_that_is_none_is_named_by_its_variable(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    (tmp_path / "notes").mkdir()
    monkeypatch.setenv("KNOWLEDGE_MODEL", value)
    for argv in (["check"], ["check", "--docs", "notes"]):
        ended = call(*argv)
        assert ended.code == 1
        assert ended.out.startswith('KNOWLEDGE_MODEL is no "<provider>/<model id>"')
        assert "garbage" not in ended.out
        assert "notes" not in ended.out


@pytest.mark.usefixtures("without_servers")
@pytest.mark.parametrize("variable", ["KNOWLEDGE_DATABASE_URL", "KNOWLEDGE_REDIS_URL"])
def test_an_address_that_is_none_is_said_once_and_of_no_collection(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    for name in ("notes", "faq"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv(variable, "garbage-address")
    ended = call("check", "--docs", "notes", "--docs", "faq")
    assert ended.code == 1
    assert len(ended.out.splitlines()) == 1
    assert ended.out.startswith(variable)
    assert "garbage" not in ended.out
