# SPDX-License-Identifier: Apache-2.0
"""Start of a process's parts in order, and their stop in reverse order, also after a failed start."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from kilonova.periodic import OwnsPeriodicThreads, PeriodicTasks
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)


class Part(Protocol):
    """A part of a process that can be started and stopped. ``stop`` is called once, even if ``start`` failed."""

    @property
    def name(self) -> str: ...
    def start(self) -> object: ...
    def stop(self) -> object: ...


@dataclass(frozen=True, slots=True)
class PartOf:
    """A part whose ``start`` and ``stop`` are functions passed to it."""

    name: str
    start: Callable[[], object]
    stop: Callable[[], object]


class ProcessParts:
    """The started parts of a process, in order. ``tasks``: register of the periodic tasks of these parts."""

    def __init__(self) -> None:
        self.tasks = PeriodicTasks()
        self._started: list[tuple[str, Callable[[], object]]] = []

    def start(self, part: Part) -> None:
        """Start a part; it will be stopped before all parts that were started earlier."""
        self.opened(part.name, part.stop)  # register first, so that a part whose start fails halfway is stopped, too
        if isinstance(part, OwnsPeriodicThreads):
            self.tasks.add(part)
        part.start()

    def opened(self, name: str, stop: Callable[[], object]) -> None:
        """Register a part that is running already."""
        self._started.append((name, stop))

    @contextmanager
    def stopped_on_failure(self) -> Iterator[None]:
        """Context manager that stops all started parts if its block raises."""
        try:
            yield
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all parts in reverse order.

        If ``stop`` of a part fails, log the error and continue with the other parts.
        """
        while self._started:
            name, stop = self._started.pop()
            try:
                stop()
            except Exception:
                LOG.exception("Part %s of this process could not be stopped", name)
