"""The documentation against the code: links, names, settings, commands and examples."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest

import knowledge_worker
from knowledge_worker.cli import COMMANDS
from knowledge_worker.cli.exit_codes import MEANINGS
from knowledge_worker.cli.options import SHARED
from knowledge_worker.client import KnowledgeClient
from knowledge_worker.config import PREFIX, ProviderSettings, Settings

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
README = ROOT / "README.md"
PAGES = [README, *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def page_id(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def code(page: Path, language: str) -> list[str]:
    return [body for found, body in _FENCE.findall(page.read_text()) if found == language]


def prose(page: Path) -> str:
    return _FENCE.sub("", page.read_text())


def anchor(heading: str) -> str:
    """As GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def rows(text: str) -> list[list[str]]:
    """Cells of every table row but headings and rules."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]


def names(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def section(page: Path, heading: str) -> str:
    found = re.search(rf"^## {re.escape(heading)}\n(.*?)(?=^## |\Z)", page.read_text(), re.MULTILINE | re.DOTALL)
    assert found, f'{page_id(page)} has no section "{heading}"'
    return found[1]


def options(command: click.Command) -> dict[str, str]:
    """Flag to variable, empty where it has none."""
    found: dict[str, str] = {}
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            flag = max(parameter.opts, key=len)
            variable = re.search(r"\[env: (\w+)\]", parameter.help or "")
            found[flag] = variable[1] if variable else ""
    return found


def shared_flags() -> set[str]:
    return {f"--{name.replace('_', '-')}" for name in SHARED}


def command(path: str) -> click.Command:
    """The command of a path such as ``status`` or ``documents put``."""
    name, *below = path.split()
    found: click.Command = getattr(importlib.import_module(f"knowledge_worker.cli.{name}"), name)
    for each in below:
        assert isinstance(found, click.Group)
        found = found.commands[each]
    return found


def command_paths() -> Iterator[str]:
    """Every command that does something; a group does when it may stand alone."""
    for name in COMMANDS:
        found = command(name)
        if not isinstance(found, click.Group) or found.invoke_without_command:
            yield name
        if isinstance(found, click.Group):
            yield from (f"{name} {below}" for below in found.commands)


PATHS = list(command_paths())


# Links and names


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_internal_link_leads_somewhere(page: Path) -> None:
    broken: list[str] = []
    for target in _LINK.findall(prose(page)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        known = {anchor(heading) for heading in _HEADING.findall(prose(file))} if file.suffix == ".md" else set[str]()
        if not file.exists() or (fragment and fragment not in known):
            broken.append(target)
    assert broken == []


def test_the_index_names_every_page() -> None:
    index = DOCS / "README.md"
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in _LINK.findall(index.read_text())}
    assert {page for page in PAGES if page not in (README, index)} <= linked


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_variable_that_a_page_names_is_a_setting(page: Path) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    assert set(re.findall(rf"{PREFIX}[A-Z0-9_]*[A-Z0-9]", page.read_text())) <= known


@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_every_command_line_that_a_page_shows_exists(page: Path) -> None:
    shown = [line.partition("knowledge-worker ")[2] for line in "\n".join(code(page, "console")).splitlines()]
    shown += re.findall(r"`knowledge-worker ([a-z][^`]*)`", prose(page))
    wrong: list[str] = []
    for line in filter(None, shown):
        name, *arguments = re.findall(r"[^\s\"']+|\"[^\"]*\"|'[^']*'", line)
        if name in COMMANDS:
            path = f"{name} {arguments[0]}" if arguments else name
            known = set(options(command(path if path in PATHS else name))) | {"--help"}
            wrong += [line for one in arguments if one.startswith("--") and one not in known]
        elif not name.startswith(("-", 'search"')):
            wrong.append(line)
    assert wrong == []


# Settings


def shown_default(value: Any) -> str:
    match value:
        case None | ():
            return "none"
        case "":
            return "empty"
        case bool():
            return f"`{int(value)}`"
        case tuple():
            return f"`{','.join(value)}`"
        case dict():
            return f"`{json.dumps(value)}`"
        case _:
            return f"`{value}`"


def test_the_settings_page_has_every_variable_with_its_default() -> None:
    shown = {
        names(cells[0])[0]: cells[1]
        for cells in rows((DOCS / "reference/settings.md").read_text())
        if names(cells[0])[0].startswith(PREFIX)
    }
    assert shown == {
        PREFIX + name.upper(): shown_default(field.get_default(call_default_factory=True))
        for name, field in Settings.model_fields.items()
    }


def test_the_provider_page_has_every_key_of_an_entry() -> None:
    page = DOCS / "how-to/use-another-provider.md"
    shown = [names(cells[0])[0] for cells in rows(section(page, "Ollama, TEI, vLLM and other compatible servers"))]
    assert sorted(shown) == sorted(ProviderSettings.model_fields)


def test_every_provider_entry_shown_is_valid() -> None:
    page = DOCS / "how-to/use-another-provider.md"
    (shown,) = re.findall(r"KNOWLEDGE_PROVIDERS='(.*?)'", page.read_text(), re.DOTALL)
    entries: dict[str, Any] = json.loads(shown)
    assert len([ProviderSettings(**entry) for entry in entries.values()]) == 3


# The command line

CLI = DOCS / "reference/cli.md"


def test_the_cli_page_has_every_command() -> None:
    shown = re.findall(r"^## knowledge-worker (.+)$", CLI.read_text(), re.MULTILINE)
    assert sorted(shown) == sorted(PATHS)


@pytest.mark.parametrize("name", PATHS)
def test_the_cli_page_has_every_option_of_a_command(name: str) -> None:
    shown = {names(cells[0])[0]: "".join(names(cells[1])) for cells in rows(section(CLI, f"knowledge-worker {name}"))}
    own = {flag: variable for flag, variable in options(command(name)).items() if flag not in shared_flags()}
    assert shown == own


def test_the_cli_page_has_the_shared_options() -> None:
    shown = {names(cells[0])[0]: names(cells[1])[0] for cells in rows(section(CLI, "Options of every command"))}
    every = options(command("status"))
    assert shown == {flag: every[flag] for flag in shared_flags()}


def test_the_cli_page_has_every_exit_code() -> None:
    shown = [(int(names(cells[0])[0]), cells[1]) for cells in rows(section(CLI, "Exit codes"))]
    assert shown == list(MEANINGS)


# Python

PYTHON = DOCS / "reference/python.md"


def test_the_python_page_has_every_public_name() -> None:
    text = prose(PYTHON)
    assert [
        name for name in knowledge_worker.__all__ if not re.search(rf"(?:^#+ |`){name}\b", text, re.MULTILINE)
    ] == []


def shown_signatures() -> Iterator[Any]:
    """Each signature on the page, in the paragraphs and in the table of methods, with what it is of."""
    text = prose(PYTHON)
    for shown in re.findall(r"^`(\w+\(.*?\))`", text, re.MULTILINE):
        name = shown.partition("(")[0]
        yield pytest.param(shown, getattr(knowledge_worker, name), id=name)
    for heading, kind in (("Knowledge", knowledge_worker.Knowledge), ("The client", KnowledgeClient)):
        for cells in rows(section(PYTHON, heading)):
            for shown in names(cells[0]):
                name = shown.partition("(")[0]
                if shown.endswith(")"):
                    yield pytest.param(shown, getattr(kind, name), id=f"{kind.__name__}.{name}")
    made = re.search(r"`(KnowledgeClient\(.*?\))`", text)
    assert made
    yield pytest.param(made[1], KnowledgeClient, id="KnowledgeClient")


def test_the_python_page_has_every_method_of_the_client() -> None:
    shown = {shown.partition("(")[0] for cells in rows(section(PYTHON, "The client")) for shown in names(cells[0])}
    assert {name for name in vars(KnowledgeClient) if not name.startswith("_")} <= shown


@pytest.mark.parametrize(("shown", "real"), list(shown_signatures()))
def test_a_signature_on_the_python_page_is_the_real_one(shown: str, real: Callable[..., Any]) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def {shown}: ...", namespace)
    (written,) = [value for key, value in namespace.items() if key != "__builtins__"]
    actual = inspect.signature(real, eval_str=False)
    parameters = [(one.name, one.kind, one.default) for one in actual.parameters.values() if one.name != "self"]
    assert [(one.name, one.kind, one.default) for one in inspect.signature(written).parameters.values()] == parameters


# Operating


def events_in_code() -> set[str]:
    """The first argument of every call that logs."""
    found: set[str] = set()
    for folder in ("knowledge_worker", "api"):
        for file in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
                    found.add(str(node.args[0].value))
    return found


def test_the_operators_page_names_only_events_that_are_logged() -> None:
    shown = {name for cells in rows(section(DOCS / "how-to/operate.md", "Logs")) for name in names(cells[0])}
    assert "knowledge error" in shown
    assert shown <= events_in_code()


# Security

SECURITY = DOCS / "security.md"


def names_of_tests(file: Path) -> set[str]:
    """Names of the tests in a file, those of classes too."""
    return {
        node.name
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def test_every_line_of_the_security_page_names_a_test_that_exists() -> None:
    lines = [line for line in section(SECURITY, "Line by line").splitlines() if line.startswith("|")]
    claims = [line for line in lines if not re.match(r"\| (what holds|---)", line)]
    named = [re.findall(r"`([\w/]+\.py)::(\w+)` \|$", line) for line in claims]

    assert [line for line, found in zip(claims, named, strict=True) if not found] == []
    missing = [
        f"{file}::{test}"
        for found in named
        for file, test in found
        if not (ROOT / "tests" / file).is_file() or test not in names_of_tests(ROOT / "tests" / file)
    ]
    assert missing == []


# Examples

PYTHON_BLOCKS = [
    pytest.param(body, id=f"{page_id(page)}-{number}")
    for page in PAGES
    for number, body in enumerate(code(page, "python"), start=1)
]


@pytest.mark.parametrize("body", PYTHON_BLOCKS)
def test_every_python_example_compiles(body: str) -> None:
    compile(body, "example", "exec")


@pytest.mark.parametrize("body", [block for block in PYTHON_BLOCKS if "from app import" not in str(block.values[0])])
def test_every_example_that_stands_alone_runs(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "example"}
    exec(compile(body, "example", "exec"), namespace)
    assert set(namespace) - {"__name__", "__builtins__"}


def readme_declaration() -> str:
    return next(body for body in code(README, "python") if "define_knowledge_source" in body)


def test_the_declaration_of_the_readme_is_ten_lines_at_most() -> None:
    assert len([line for line in readme_declaration().splitlines() if line.strip()]) <= 10


def test_the_declaration_of_the_readme_loads(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(readme_declaration())
    (tmp_path / "handbook").mkdir()
    environment = {"PATH": "", "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}

    checked = subprocess.run(
        [sys.executable, "-m", "knowledge_worker.cli", *shlex.split("check --json --app app:knowledge")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert json.loads(checked.stdout) == {"problems": [], "servers": False}, checked.stderr
    assert checked.returncode == 0


def test_the_model_of_the_python_page_is_a_model() -> None:
    namespace: dict[str, Any] = {}
    exec(next(body for body in code(PYTHON, "python") if "class LengthModel" in body), namespace)

    model = namespace["LengthModel"]()

    assert isinstance(model, knowledge_worker.EmbeddingModel)
    vectors = model.embed(["a", "bcd"], purpose="document", timeout_ms=1000).vectors
    assert vectors.shape == (2, model.dimensions)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
