"""Who uses the deployment during a soak: writers, authors who change files and ask for syncs, and searchers."""

from __future__ import annotations

import asyncio
import random
import time
from pathlib import Path
from urllib.parse import quote

import httpx

from soaking.truth import DECLARED, MANAGED, Author, Truth

DOCUMENTS_A_WRITER = 8
FILES = 60
AGAIN_S = 0.2
EXPECTED = {
    "PUT": {200, 202},
    "DELETE": {204, 404},
    "POST sync": {202},
    "POST": {201, 409},
    "GET": {200},
}


class People:
    """Everybody speaks to the API, and repeats until it answers."""

    def __init__(self, client: httpx.AsyncClient, truth: Truth, *, seed: int, until: float) -> None:
        self._client = client
        self._truth = truth
        self._seed = seed
        self._until = until
        self._deletions = 0

    async def create(self) -> None:
        """The managed collections; one that is there already was made by an answer that got lost."""
        for name in MANAGED:
            await self.ask("POST", "/knowledge/collections", {"name": name})

    async def write(self, number: int) -> None:
        """Put, change and delete documents of one's own, each only after the last one was answered."""
        author = Author(self._seed * 1000 + number)
        collection = MANAGED[number % len(MANAGED)]
        while time.monotonic() < self._until:
            identifier = f"w{number}/d{author.rng.randrange(DOCUMENTS_A_WRITER)}"
            key = (collection, identifier)
            path = f"/knowledge/collections/{collection}/documents/{quote(identifier, safe='')}"
            if author.rng.random() < 0.15:
                await self.ask("DELETE", path)
                self._truth.managed[key] = None
                self._deletions += 1
                self._truth.deleted[key] = self._deletions
            else:
                content = author.content(identifier)
                self._truth.deleted.pop(key, None)
                await self.ask("PUT", path, {"content": content})
                self._truth.managed[key] = content
            await asyncio.sleep(author.rng.random())

    async def change(self, name: str) -> None:
        """Change the files of a folder and ask for a sync, again and again."""
        author = Author(self._seed * 1000 + 500 + DECLARED.index(name))
        folder = self._truth.folder / name
        while time.monotonic() < self._until:
            author.change_folder(folder, FILES)
            if name == "moody":
                _moods(folder.parent, author.rng)
            await self.sync(name)
            await asyncio.sleep(1 + 3 * author.rng.random())
        for mood in ("fail", "incomplete"):
            (folder.parent / mood).unlink(missing_ok=True)

    async def sync(self, name: str) -> None:
        """Ask for a pass that waits for nothing."""
        await self.ask("POST sync", f"/knowledge/collections/{name}/sync?force=true&confirmDeletes=true")

    async def search(self) -> None:
        """Look for what was deleted: an answered deletion is never found again."""
        rng = random.Random(self._seed)
        while time.monotonic() < self._until:
            gone = dict(self._truth.deleted)
            number = rng.randrange(200)
            found = await self._once(
                "POST", "/knowledge/search", {"query": f"w{rng.randrange(20)} says number {number}", "topK": 20}
            )
            if found is not None and found.status_code == 200:
                for match in found.json()["matches"]:
                    key = (match["collection"], match["document"])
                    if key in gone and gone[key] == self._truth.deleted.get(key):
                        self._truth.problem(f"{key} was deleted, and a search finds it")
            elif found is not None and found.status_code not in (409, 503):
                self._truth.problem(f"search: {found.status_code} {found.text[:200]}")
            await asyncio.sleep(0.3)

    async def ask(self, what: str, path: str, body: object = None) -> httpx.Response | None:
        """Send until it is accepted: every one of these repeats well. None when it never was, which is a problem."""
        method = what.split()[0]
        gives_up = max(self._until, time.monotonic()) + 120
        while time.monotonic() < gives_up:
            answer = await self._once(method, path, body)
            if answer is not None and answer.status_code in EXPECTED[what]:
                return answer
            if answer is not None and answer.status_code != 503:
                self._truth.problem(f"{what} {path}: {answer.status_code} {answer.text[:200]}")
                return None
            await asyncio.sleep(AGAIN_S)
        self._truth.problem(f"{what} {path}: never accepted")
        return None

    async def _once(self, method: str, path: str, body: object = None) -> httpx.Response | None:
        try:
            answer = await self._client.request(method, path, json=body)
        except httpx.TransportError as error:
            self._truth.answers[type(error).__name__] += 1
            return None
        self._truth.answers[f"{method} {answer.status_code}"] += 1
        if answer.status_code >= 500 and answer.status_code != 503:
            self._truth.problem(f"{method} {path}: {answer.status_code} {answer.text[:200]}")
        return answer


def _moods(folder: Path, rng: random.Random) -> None:
    for mood, chance in (("fail", 0.15), ("incomplete", 0.2)):
        if rng.random() < chance:
            (folder / mood).touch()
        else:
            (folder / mood).unlink(missing_ok=True)
