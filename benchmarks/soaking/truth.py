"""What a soak knows: what everybody was promised, and what may have cost something twice."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

DECLARED = ("plain", "second", "moody")
MANAGED = ("notes-0", "notes-1", "notes-2")
POISON = "POISON"
"""A text with this word is refused by its provider for good."""

Key = tuple[str, str]


@dataclass
class Truth:
    """What must be there at the end.

    Attributes:
        managed: (collection, document) → the content that was accepted last, or None after a deletion.
        answers: of the API, by method and status.
        events: what was done to the deployment, by name.
        excused: passages that may have been paid for twice because of it.
        deleted: documents that no search may find now, with the number of the deletion.
        problems: promises that were not kept.
    """

    folder: Path
    managed: dict[Key, str | None] = field(default_factory=dict)
    answers: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    excused: int = 0
    deleted: dict[Key, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def problem(self, text: str) -> None:
        """Note a promise that was not kept."""
        self.problems.append(text)

    def documents(self) -> dict[Key, str]:
        """Every document that must be there, with its content; those of folders as the files say now."""
        found = {key: content for key, content in self.managed.items() if content is not None}
        for name in DECLARED:
            for file in sorted((self.folder / name).glob("*.md")):
                content = file.read_text()
                if content:
                    found[name, file.name] = content
        return found


class Author:
    """Makes up contents, none of them twice, so that a text which is sent twice was paid for twice."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._number = 0

    def content(self, name: str) -> str:
        """One to a dozen passages of a document called ``name``; now and then one that is refused."""
        self._number += 1
        said = f"{name} says number {self._number}"
        if self.rng.random() < 0.03:
            return f"{said} {POISON}"
        if self.rng.random() < 0.7:
            return said
        return "\n\n".join(
            f"{said}, part {part}: " + " ".join(f"word{self.rng.randrange(9999)}" for _ in range(150))
            for part in range(self.rng.randrange(2, 12))
        )

    def change_folder(self, folder: Path, most: int) -> None:
        """Write, rewrite, rename or delete some files of a folder, each at once."""
        for _ in range(self.rng.randrange(1, 6)):
            target = folder / f"d{self.rng.randrange(most)}.md"
            draw = self.rng.random()
            if draw < 0.2:
                target.unlink(missing_ok=True)
            elif draw < 0.3 and target.exists():
                # A renamed document is another one; its texts keep their hash and may be paid for again.
                target.write_text(self.content(f"{folder.name}/{target.name}"))
                target.rename(folder / f"d{self.rng.randrange(most)}.md")
            else:
                partly = target.with_suffix(".part")
                partly.write_text(self.content(f"{folder.name}/{target.name}"))
                partly.rename(target)
