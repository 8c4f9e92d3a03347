"""What a scripted provider saw and what it is told to answer, shared by all of its threads."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import count

from knowledge_worker.testing.provider_rules import Rule


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRequest:
    """One request for embeddings.

    Attributes:
        at: when it came, seconds since the epoch.
        texts: its inputs.
        status: what was answered; 0 while no answer was sent.
        authorized: whether it carried an ``Authorization`` header.
        parallel: requests being answered at that moment, itself included.
    """

    at: float
    texts: tuple[str, ...]
    model: str
    encoding_format: str
    dimensions: int | None
    authorized: bool
    parallel: int
    status: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """A request that is being answered: its number, the rule for it, and how many releases came before it."""

    number: int
    rule: Rule
    releases: int


class ProviderLedger:
    """Requests, counts and the script; every method may be called from any thread."""

    def __init__(self, *, dimensions: int, delay_s: float) -> None:
        self.dimensions = dimensions
        self.delay_s = delay_s
        self._changed = threading.Condition()
        self._requests: dict[int, RecordedRequest] = {}
        self._numbers = count()
        self._rules: list[tuple[Rule, int]] = []
        self._parallel = 0
        self._max_parallel = 0
        self._releases = 0
        self._closed = False

    @property
    def requests(self) -> tuple[RecordedRequest, ...]:
        """Every request for embeddings so far, in the order they came."""
        with self._changed:
            return tuple(self._requests.values())

    @property
    def texts(self) -> Counter[str]:
        """How often each text was sent, whatever was answered."""
        return Counter(text for request in self.requests for text in request.texts)

    @property
    def embedded(self) -> Counter[str]:
        """How often each text was sent in a request that was answered with 200."""
        return Counter(text for request in self.requests if request.status == 200 for text in request.texts)

    @property
    def max_parallel(self) -> int:
        """The most requests that were being answered at once."""
        with self._changed:
            return self._max_parallel

    def count_of(self, text: str) -> int:
        """How often exactly this text was sent, whatever was answered."""
        return self.texts[text]

    def script(self, *rules: Rule) -> None:
        """Add rules behind those that are there; the first match that is not used up decides."""
        with self._changed:
            self._rules.extend((rule, 0) for rule in rules)

    def clear_script(self) -> None:
        """Answer as it should from now on; held answers stay held."""
        with self._changed:
            self._rules.clear()

    def release(self) -> None:
        """Let every answer go that a rule with ``hold`` keeps back; requests that come later are held again."""
        with self._changed:
            self._releases += 1
            self._changed.notify_all()

    def reset(self) -> None:
        """Forget script and counts and let held answers go."""
        self.clear_script()
        self.release()
        with self._changed:
            self._requests.clear()
            self._max_parallel = self._parallel

    def wait_for_requests(self, count: int, *, timeout_s: float = 30.0) -> None:
        """Return once ``count`` requests have come in all, answered or not.

        Raises:
            TimeoutError: fewer came in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._requests) >= count, timeout_s):
                raise TimeoutError(f"{len(self._requests)} of {count} requests came in {timeout_s} s")

    def state(self) -> dict[str, object]:
        """What ``GET /_state`` answers."""
        return {
            "requests": [asdict(request) for request in self.requests],
            "texts": dict(self.texts),
            "embedded": dict(self.embedded),
            "max_parallel": self.max_parallel,
        }

    def break_off(self) -> None:
        """End every wait, for good."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def begin(self, request: RecordedRequest) -> Ticket:
        """Count a request that came in and find the rule for it."""
        with self._changed:
            self._parallel += 1
            self._max_parallel = max(self._max_parallel, self._parallel)
            number = next(self._numbers)
            self._requests[number] = replace(request, parallel=self._parallel)
            self._changed.notify_all()
            return Ticket(number=number, rule=self._take_rule(request.texts), releases=self._releases)

    def _take_rule(self, texts: Sequence[str]) -> Rule:
        for place, (rule, used) in enumerate(self._rules):
            if rule.matches(texts) and (rule.times is None or used < rule.times):
                self._rules[place] = (rule, used + 1)
                return rule
        return Rule()

    def answered(self, ticket: Ticket, status: int) -> None:
        """Note what the request is answered with."""
        with self._changed:
            # A reset in between has forgotten the request.
            if ticket.number in self._requests:
                self._requests[ticket.number] = replace(self._requests[ticket.number], status=status)

    def end(self) -> None:
        """Count a request less that is being answered."""
        with self._changed:
            self._parallel -= 1

    def wait(self, seconds: float) -> None:
        """Sleep, or until the provider closes."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, seconds)

    def wait_for_release(self, ticket: Ticket) -> None:
        """Block until a release after the request came, or until the provider closes."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._releases > ticket.releases)
