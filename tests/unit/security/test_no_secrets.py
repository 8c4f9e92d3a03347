"""No file of the repository holds a secret: every pattern of detect-secrets, over whole files to be done in seconds.

What has no form of its own, such as a password in an assignment, is left to ruff (S105 to S107).
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.plugins.base import RegexBasedDetector

ROOT = Path(__file__).parents[3]
EXAMPLES = {
    "...", "c", "hidden", "p", "p4ss", "pass-w0rd", "password", "pw", "secret", "secret-word", "very-secret", "w",
    "word", "x", "{TOKEN}", "{password}",
}  # fmt: skip
"""Passwords of addresses that documentation and tests show."""
NO_SECRETS = {"Public IP (ipv4)"}
PATTERNS: dict[str, list[re.Pattern[str]]] = {
    kind: list(plugin().denylist)
    for kind, plugin in get_mapping_from_secret_type_to_class().items()
    if issubclass(plugin, RegexBasedDetector) and kind not in NO_SECRETS
}


def secrets_in(text: str) -> Iterator[tuple[str, int]]:
    """Kind and line of everything that looks like a secret."""
    for kind, patterns in PATTERNS.items():
        for pattern in patterns:
            for found in pattern.finditer(text):
                if EXAMPLES.isdisjoint(found.groups()):
                    yield kind, text.count("\n", 0, found.start()) + 1


def files() -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no Git checkout, so nobody knows which files belong to it")
    return [ROOT / name for name in listed.stdout.decode().split("\0") if name]


def test_no_file_of_the_repository_holds_a_secret() -> None:
    found: list[str] = []
    for file in files():
        if file.is_file():
            text = file.read_text(encoding="utf-8", errors="replace")
            found += [f"{file.relative_to(ROOT)}:{line}: {kind}" for kind, line in secrets_in(text)]

    assert found == []


@pytest.mark.parametrize(
    ("kind", "parts"),
    [
        ("AWS Access Key", ("AKIA", "QWERTYUIOPASDFGH")),
        ("GitHub Token", ("ghp", "_", "a1B2c3D4e5F6a1B2c3D4e5F6a1B2c3D4e5F6")),
        ("GitLab Token", ("glpat", "-", "a1B2c3D4e5F6a1B2c3D4")),
        ("OpenAI Token", ("sk-", "a1B2c3D4e5F6a1B2c3D4", "T3Blbk", "FJ", "a1B2c3D4e5F6a1B2c3D4")),
        ("Private Key", ("-----BEGIN ", "RSA PRIVATE ", "KEY-----")),
        ("PyPI Token", ("pypi-", "AgEIcHlwaS5vcmc", "a1B2c3D4e5" * 8)),
        ("Slack Token", ("xox", "b-", "123456789012-", "a1B2c3D4e5F6")),
        ("Basic Auth Credentials", ("postgresql://", "kw:", "hunter2", "@db.example:5432/kw")),
    ],
)
def test_a_secret_is_found_with_its_line(kind: str, parts: tuple[str, ...]) -> None:
    assert (kind, 3) in set(secrets_in(f"# a file\n\nvalue = '{''.join(parts)}'\n"))
