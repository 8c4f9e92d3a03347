"""Observers of nothing, and of several kinds at once."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from knowledge_worker.ports import Fact, Observation, Observer, Operation


class NoObserver:
    """An :class:`~knowledge_worker.ports.Observer` that looks away."""

    @contextmanager
    def during(
        self,
        operation: Operation,  # noqa: ARG002
        *,
        carrier: Mapping[str, str] | None = None,  # noqa: ARG002
        **facts: Fact,  # noqa: ARG002
    ) -> Generator[Observation]:
        """Do nothing around the operation."""
        yield _Noted(())

    def leases_expired(self, count: int) -> None:
        """Do nothing."""

    def provider_paused(self, provider: str) -> None:
        """Do nothing."""

    def carrier(self) -> dict[str, str]:
        """Nothing to send along."""
        return {}


class Observers:
    """Tells several observers; the first one sees an operation begin first and end last."""

    def __init__(self, observers: Sequence[Observer]) -> None:
        self._observers = tuple(observers)

    @contextmanager
    def during(
        self, operation: Operation, *, carrier: Mapping[str, str] | None = None, **facts: Fact
    ) -> Generator[Observation]:
        """Have each of them watch."""
        with ExitStack() as stack:
            yield _Noted(
                [stack.enter_context(one.during(operation, carrier=carrier, **facts)) for one in self._observers]
            )

    def leases_expired(self, count: int) -> None:
        """Tell each of them."""
        for one in self._observers:
            one.leases_expired(count)

    def provider_paused(self, provider: str) -> None:
        """Tell each of them."""
        for one in self._observers:
            one.provider_paused(provider)

    def carrier(self) -> dict[str, str]:
        """What each of them sends along, together."""
        return {name: value for one in self._observers for name, value in one.carrier().items()}


class _Noted:
    def __init__(self, observations: Sequence[Observation]) -> None:
        self._observations = observations

    def note(self, **facts: Fact) -> None:
        for one in self._observations:
            one.note(**facts)
