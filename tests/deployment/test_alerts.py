"""deploy/prometheus/alerts_test.yml sees each alert fire, and none without a cause."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

PROMETHEUS = Path(__file__).parents[2] / "deploy/prometheus"


def test_each_alert_is_expected_to_fire_somewhere() -> None:
    rules = yaml.safe_load((PROMETHEUS / "alerts.yml").read_text())["groups"][0]["rules"]
    tests = yaml.safe_load((PROMETHEUS / "alerts_test.yml").read_text())["tests"]
    expected = {
        name
        for test in tests
        for query in test["promql_expr_test"]
        for sample in query.get("exp_samples", ())
        for name in re.findall(r'alertname="(\w+)"', sample["labels"])
    }
    assert expected == {rule["alert"] for rule in rules}


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool, of Prometheus, is not installed")
@pytest.mark.parametrize(
    "command",
    [["check", "rules", "alerts.yml"], ["test", "rules", "alerts_test.yml"], ["check", "config", "prometheus.yml"]],
)
def test_prometheus_takes_the_rules_and_each_alert_fires(command: list[str]) -> None:
    ended = subprocess.run(["promtool", *command], cwd=PROMETHEUS, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
