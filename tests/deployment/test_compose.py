"""compose.yaml as far as it can be shown without Docker: it parses, holds no secret, and its commands are real."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from knowledge_worker.cli import cli
from knowledge_worker.config import Settings

ROOT = Path(__file__).parents[2]
OURS = ("migrate", "api", "worker", "beat", "flower")
SECRETS = {
    "POSTGRES_PASSWORD": "c0ffee",
    "KNOWLEDGE_TOKENS": '[{"value": "0123456789abcdef", "id": "test", "permissions": ["knowledge:*"]}]',
    "KNOWLEDGE_FLOWER_BASIC_AUTH": "someone:something",
}
VARIABLE = re.compile(r"\$(?:(?P<escaped>\$)|\{(?P<name>\w+)(?:(?P<kind>:\?|:-)(?P<word>[^}]*))?\})")


class VariableMissingError(Exception):
    """A variable that the file requires is not set."""


def load_compose(variables: Mapping[str, str]) -> dict[str, Any]:
    """The file with its variables filled in, as Compose does it."""
    return fill(yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8")), variables)


def fill(node: Any, variables: Mapping[str, str]) -> Any:
    if isinstance(node, dict):
        return {key: fill(value, variables) for key, value in node.items()}
    if isinstance(node, list):
        return [fill(value, variables) for value in node]
    if not isinstance(node, str):
        return node

    def value_of(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "$"
        value = variables.get(match["name"], "")
        if value or match["kind"] is None:
            return value
        if match["kind"] == ":?":
            raise VariableMissingError(match["name"])
        return match["word"]

    return VARIABLE.sub(value_of, node)


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    return load_compose(SECRETS)["services"]


@pytest.mark.parametrize("name", SECRETS)
def test_a_secret_comes_from_outside_or_the_file_is_refused(name: str) -> None:
    with pytest.raises(VariableMissingError, match=name):
        load_compose({key: value for key, value in SECRETS.items() if key != name})


def test_the_file_and_its_example_hold_no_secret() -> None:
    written = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    secret = re.compile("PASSWORD|TOKEN|KEY|AUTH|SECRET")
    for service in written["services"].values():
        for name, value in service.get("environment", {}).items():
            assert not secret.search(name) or value is None or value.startswith("${"), name
    for line in (ROOT / ".env.example").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        assert line.startswith("#") or not secret.search(name) or not value, name


def test_each_process_is_a_command_of_the_image(services: dict[str, Any]) -> None:
    for name in OURS:
        assert services[name]["command"] == [name]
        assert cli.get_command(click.Context(cli), name) is not None
        assert "entrypoint" not in services[name]


def test_each_setting_named_is_one_that_is_read(services: dict[str, Any]) -> None:
    known = {f"KNOWLEDGE_{name.upper()}" for name in Settings.model_fields}
    named = {key for name in OURS for key in services[name]["environment"] if key.startswith("KNOWLEDGE_")}
    assert named <= known
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert set(re.findall(r"^\s+(KNOWLEDGE_\w+)=", image, re.MULTILINE)) <= known


def test_nothing_starts_before_what_it_needs(services: dict[str, Any]) -> None:
    assert services["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    for name in ("beat", "flower"):
        assert services[name]["depends_on"] == {"redis": {"condition": "service_healthy"}}
    for name in ("api", "worker"):
        assert services[name]["depends_on"] == {
            "migrate": {"condition": "service_completed_successfully"},
            "postgres": {"condition": "service_healthy"},
            "redis": {"condition": "service_healthy"},
        }


def test_everything_that_stays_is_watched_and_restarted(services: dict[str, Any]) -> None:
    for name in services.keys() - {"migrate"}:
        assert services[name]["healthcheck"]["test"][0] in ("CMD", "CMD-SHELL"), name
        assert services[name]["restart"] == "unless-stopped", name
    for name in OURS:
        assert services[name]["init"] is True
        assert services[name]["stop_grace_period"] == "30s"


def test_a_process_is_told_no_more_than_it_needs(services: dict[str, Any]) -> None:
    """Flower is a page that shows and stops workers: neither the database nor a provider is its business."""
    assert services["flower"]["environment"].keys() == {
        "KNOWLEDGE_REDIS_URL",
        "KNOWLEDGE_LOG_LEVEL",
        "KNOWLEDGE_FLOWER_BASIC_AUTH",
    }
    assert services["beat"]["environment"].keys() == {"KNOWLEDGE_REDIS_URL", "KNOWLEDGE_LOG_LEVEL"}
    assert [name for name in OURS if "KNOWLEDGE_TOKENS" in services[name]["environment"]] == ["api"]


def test_workers_can_be_many(services: dict[str, Any]) -> None:
    assert not {"container_name", "hostname", "ports"} & services["worker"].keys()


def test_nothing_is_published_beyond_this_machine(services: dict[str, Any]) -> None:
    published = {name: service["ports"] for name, service in services.items() if "ports" in service}
    assert published == {"api": ["127.0.0.1:8100:8100"], "flower": ["127.0.0.1:5555:5555"]}


def test_prometheus_looks_where_the_metrics_are(services: dict[str, Any]) -> None:
    folder = ROOT / "deploy/prometheus"
    beside = yaml.safe_load((folder / "compose.yaml").read_text())
    for service in beside["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])
        mounted = [volume.split(":")[0] for volume in service["volumes"] if volume.startswith("./")]
        assert mounted
        assert all((ROOT / path).exists() for path in mounted)
    jobs = yaml.safe_load((folder / "prometheus.yml").read_text())["scrape_configs"]
    (api, worker) = [job["dns_sd_configs"][0] for job in jobs]
    fields = Settings.model_fields
    assert (api["names"], api["port"]) == (["api"], fields["port"].default)
    assert (worker["names"], worker["port"]) == (["worker"], fields["metrics_port"].default)
    for name in ("api", "worker"):
        assert "KNOWLEDGE_METRICS_TOKEN" in services[name]["environment"]


def test_redis_keeps_what_it_is_told(services: dict[str, Any]) -> None:
    command = services["redis"]["command"]
    assert command[command.index("--maxmemory-policy") + 1] == "noeviction"
    assert command[command.index("--appendonly") + 1] == "yes"


def test_data_outlives_the_containers(services: dict[str, Any]) -> None:
    # The image of PostgreSQL 18 refuses a volume at its former place, /var/lib/postgresql/data.
    assert services["postgres"]["image"].endswith(":pg18")
    assert services["postgres"]["volumes"] == ["postgres:/var/lib/postgresql"]
    assert services["redis"]["volumes"] == ["redis:/data"]
    assert load_compose(SECRETS)["volumes"].keys() == {"postgres", "redis"}


def test_the_image_is_built_from_files_that_the_build_gets() -> None:
    """A file that .dockerignore holds back would fail the build only where there is a Docker engine."""
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    sent = {line.removeprefix("!").rstrip("/") for line in ignored if line.startswith("!")}
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", image, re.MULTILINE)
    copied = {name.removeprefix("./") for line in copies for name in line.split()}
    assert copied == sent
    assert all((ROOT / name).exists() for name in copied)


def test_the_image_runs_as_nobody_special() -> None:
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8").rpartition("\nFROM ")[2]
    assert re.search(r"^USER (?!0|root)\w+$", image, re.MULTILINE)
    assert 'ENTRYPOINT ["knowledge-worker"]' in image
    assert not re.search(r"\b(pip|gcc|apt-get) ", image)


def test_a_constraint_is_a_version_and_nothing_else() -> None:
    """No address of an index, which would be that of the machine where they were resolved."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    for line in text.splitlines():
        assert line.startswith("#") or re.fullmatch(r"[a-z0-9-]+==\S+( ; .+)?", line), line


def test_make_offers_what_its_help_lists() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    for target in ("up", "test", "lint", "types", "contracts"):
        assert f"make {target}" in done.stdout
