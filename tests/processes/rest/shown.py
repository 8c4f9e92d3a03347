"""Runs what a page shows in its console blocks, as a reader would type it, and keeps what was answered."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROMISED = re.compile(r"\s# ([1-5]\d\d)$")
_CURL = """#!/bin/sh
exec '{curl}' --silent --show-error --write-out '%{{stderr}}status %{{http_code}}\\n' "$@"
"""


@dataclass(frozen=True)
class Shown:
    """A command of a page.

    Attributes:
        promised: the status in a comment behind it, None without one.
        answer: the lines that the page shows below it.
    """

    command: str
    promised: int | None
    answer: str


@dataclass(frozen=True)
class Ran:
    """What a command printed; ``statuses`` are those that its curls were answered, in order."""

    shown: Shown
    printed: str
    complained: str

    @property
    def statuses(self) -> list[int]:
        return [int(status) for status in re.findall(r"^status (\d+)$", self.complained, re.MULTILINE)]


def commands(text: str) -> list[Shown]:
    """The commands of every console block: lines after ``$ ``, with those that belong to them."""
    found: list[Shown] = []
    for block in _BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            lines = part.splitlines()
            length = _length(lines)
            command = "\n".join(lines[:length])
            promised = _PROMISED.search(command)
            found.append(
                Shown(
                    command=command,
                    promised=int(promised[1]) if promised else None,
                    answer="\n".join(lines[length:]),
                )
            )
    return found


def run(shown: Iterable[Shown], folder: Path, *, curl: str, variables: Mapping[str, str]) -> list[Ran]:
    """Type commands into one shell.

    Args:
        folder: an empty one, the shell's working directory.
        curl: the program's path; it is run so that it also tells the status.
        variables: what the page lets the reader set.
    """
    (folder / "bin").mkdir()
    (folder / "bin" / "curl").write_text(_CURL.format(curl=curl))
    (folder / "bin" / "curl").chmod(0o755)
    listed = list(shown)
    script = "\n".join(
        f"{{\n{one.command}\n}} > {number}.out 2> {number}.err" for number, one in enumerate(listed, start=1)
    )
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env={"PATH": path, "HOME": str(folder), **variables},
        timeout=120,
        check=True,
    )
    return [
        Ran(one, (folder / f"{number}.out").read_text(), (folder / f"{number}.err").read_text())
        for number, one in enumerate(listed, start=1)
    ]


def _length(lines: list[str]) -> int:
    """How many lines a command has: it goes on after a backslash, and to the end of a here-document."""
    length = 1
    while lines[length - 1].endswith("\\"):
        length += 1
    if end := re.search(r"<<'?(\w+)'?", lines[0]):
        length = lines.index(end[1]) + 1
    return length
