"""Options before and after the command, variables, and servers that are found running."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from knowledge_worker.cli.network import is_loopback, listening_socket
from knowledge_worker.config import load_settings
from knowledge_worker.domain.limits import Limits
from knowledge_worker.errors import ConfigurationError

from .conftest import FakeKnowledge

Call = Callable[..., Any]


def test_an_option_may_stand_before_or_after_the_command(call: Call, knowledge: FakeKnowledge) -> None:
    for argv in (["--app", "shop:knowledge", "status"], ["status", "--app", "shop:knowledge"]):
        assert call(*argv).code == 0
        assert knowledge.settings is not None
        assert knowledge.settings.app == "shop:knowledge"
    assert "KNOWLEDGE_APP" not in os.environ


def test_the_option_after_the_command_wins_and_an_option_wins_over_its_variable(
    call: Call, knowledge: FakeKnowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWLEDGE_APP", "variable:knowledge")
    call("--app", "before:knowledge", "status", "--app", "after:knowledge")
    assert knowledge.settings is not None
    assert knowledge.settings.app == "after:knowledge"
    call("--app", "before:knowledge", "status")
    assert knowledge.settings.app == "before:knowledge"
    call("status")
    assert knowledge.settings.app == "variable:knowledge"


def test_docs_can_be_given_several_times(call: Call, knowledge: FakeKnowledge) -> None:
    expected = (Path("a"), Path("b"))
    for argv in (["status", "--docs", "a", "--docs", "b"], ["--docs", "a", "--docs", "b", "status"]):
        call(*argv)
        assert knowledge.settings is not None
        assert knowledge.settings.docs == expected


def test_a_path_that_a_variable_cannot_hold_goes_after_the_command(call: Call, knowledge: FakeKnowledge) -> None:
    assert call("--docs", "a:b", "status").code == 2
    assert call("status", "--docs", "a:b").code == 0


def test_without_addresses_and_without_a_running_up_it_says_what_to_do(
    call: Call, knowledge: FakeKnowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KNOWLEDGE_DATABASE_URL")
    monkeypatch.delenv("KNOWLEDGE_REDIS_URL")
    ended = call("status")
    assert ended.code == 2
    assert ended.err == (
        "Error: Nothing runs in .knowledge: start `knowledge-worker up`, "
        "or set KNOWLEDGE_DATABASE_URL and KNOWLEDGE_REDIS_URL.\n"
    )


def test_a_running_up_is_found_and_a_set_address_wins(
    call: Call, knowledge: FakeKnowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KNOWLEDGE_DATABASE_URL")
    running = SimpleNamespace(
        database_url="postgresql://localhost/found", redis_url="redis://localhost:2", model="local/wordllama"
    )
    monkeypatch.setattr("knowledge_worker.embedded.directory.running_servers", lambda _: running)
    assert call("status").code == 0
    settings = knowledge.settings
    assert settings is not None
    assert settings.database_url is not None
    assert settings.redis_url is not None
    assert settings.database_url.get_secret_value() == "postgresql://localhost/found"
    assert settings.redis_url.get_secret_value() == "redis://localhost:1"
    assert settings.model == "local/wordllama"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("KNOWLEDGE_TOKENS", "nope", "KNOWLEDGE_TOKENS: is no JSON"),
        ("KNOWLEDGE_LEASE_MS", "soon", "KNOWLEDGE_LEASE_MS"),
        ("KNOWLEDGE_QUEUES", "sync,mail", "KNOWLEDGE_QUEUES: names a queue other than"),
        ("KNOWLEDGE_LEASE_MS", "99999999999999999999", "KNOWLEDGE_LEASE_MS: Input should be less than"),
        ("KNOWLEDGE_PASSES_KEPT", "1000001", "KNOWLEDGE_PASSES_KEPT: Input should be less than"),
        ("KNOWLEDGE_CONCURRENCY", "1001", "KNOWLEDGE_CONCURRENCY: Input should be less than"),
        ("KNOWLEDGE_DATABASE_POOL", "1001", "KNOWLEDGE_DATABASE_POOL: Input should be less than"),
        ("KNOWLEDGE_BODY_LIMIT", "1073741825", "KNOWLEDGE_BODY_LIMIT: Input should be less than"),
        ("KNOWLEDGE_FLOWER_BASIC_AUTH", "hidden", "KNOWLEDGE_FLOWER_BASIC_AUTH: is no user:password"),
        ("KNOWLEDGE_FLOWER_BASIC_AUTH", "hidden:", "KNOWLEDGE_FLOWER_BASIC_AUTH: is no user:password"),
        ("KNOWLEDGE_ROOT_PATH", "/hidden value", "KNOWLEDGE_ROOT_PATH: holds something other"),
        ("KNOWLEDGE_ROOT_PATH", "/hidden\n", "KNOWLEDGE_ROOT_PATH: holds something other"),
    ],
)
def test_a_wrong_variable_is_named_without_its_value(
    call: Call, knowledge: FakeKnowledge, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, message: str
) -> None:
    monkeypatch.setenv(variable, value)
    ended = call("status")
    assert ended.code == 2
    assert ended.err.startswith(f"Error: {message}")
    assert len(ended.err.splitlines()) == 1
    assert "hidden" not in ended.err


def test_every_duration_and_count_has_an_upper_bound() -> None:
    numbers = {name: field for name, field in Limits.model_fields.items() if not isinstance(field.default, str)}
    for name, field in numbers.items():
        with pytest.raises(ConfigurationError, match=f"KNOWLEDGE_{name.upper()}: .*less than"):
            load_settings(**{name: 2**63})
        load_settings(**{name: field.default})


def test_values_that_are_fine_stay_fine() -> None:
    settings = load_settings(root_path="/agents/v1", flower_basic_auth="me:a:b", lease_ms=2_147_483_647)
    assert settings.root_path == "/agents/v1"
    assert load_settings(root_path="").root_path == ""


def test_development_is_refused_where_others_can_reach_it(
    call: Call, knowledge: FakeKnowledge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KNOWLEDGE_DEV", "1")
    ended = call("api", "--host", "0.0.0.0")
    assert ended.code == 2
    assert "KNOWLEDGE_DEV is for loopback" in ended.err


@pytest.mark.parametrize("command", ["api", "worker"])
def test_wrong_declarations_keep_a_process_from_starting(call: Call, knowledge: FakeKnowledge, command: str) -> None:
    knowledge.problems = ['Collection "faq": no such provider', "another"]
    ended = call(command)
    assert ended.code == 2
    assert ended.err == 'Error: Collection "faq": no such provider (and 1 more: knowledge-worker check)\n'


@pytest.mark.parametrize("command", ["beat", "flower"])
def test_an_address_that_is_none_is_one_line(call: Call, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KNOWLEDGE_REDIS_URL", "http://localhost")
    ended = call(command)
    assert ended.code == 2
    assert ended.err.splitlines()[-1].startswith("Error: KNOWLEDGE_REDIS_URL starts with redis://")


@pytest.mark.parametrize(("command", "option"), [("api", "--port"), ("flower", "--flower-port")])
def test_a_port_in_use_is_one_line(call: Call, knowledge: FakeKnowledge, command: str, option: str) -> None:
    knowledge.settings = None
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ended = call(command, option, str(port))
    assert ended.code == 2
    assert f"Port {port} on 127.0.0.1 is in use" in ended.err.splitlines()[-1]


def test_a_socket_listens_on_a_free_port() -> None:
    with listening_socket("127.0.0.1", 0, "--port", "KNOWLEDGE_PORT") as listener:
        socket.create_connection(listener.getsockname(), timeout=5).close()


def test_a_host_that_is_no_address_of_this_machine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="Nothing can listen"):
        listening_socket("192.0.2.1", 0, "--port", "KNOWLEDGE_PORT")


def test_what_counts_as_loopback() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"))
    assert not any(is_loopback(host) for host in ("0.0.0.0", "::", "192.168.0.1", "example.com", ""))
