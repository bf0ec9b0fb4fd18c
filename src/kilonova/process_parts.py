# SPDX-License-Identifier: Apache-2.0
"""The parts of a process: started one after the other, stopped in reverse, also where a start fails halfway."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from kilonova.periodic import OwnsPeriodicThreads, PeriodicTasks

LOG = logging.getLogger(__name__)


class Part(Protocol):
    """What a process starts and stops. ``stop`` is called once, also where ``start`` has failed."""

    @property
    def name(self) -> str: ...
    def start(self) -> object: ...
    def stop(self) -> object: ...


@dataclass(frozen=True, slots=True)
class PartOf:
    """A part made of two functions."""

    name: str
    start: Callable[[], object]
    stop: Callable[[], object]


class ProcessParts:
    """What a process has started, in order. ``tasks``: the register of the periodic tasks among it."""

    def __init__(self) -> None:
        self.tasks = PeriodicTasks()
        self._started: list[tuple[str, Callable[[], object]]] = []

    def start(self, part: Part) -> None:
        """Start a part, after all those before it; it is stopped before them."""
        self.opened(part.name, part.stop)  # first: a part may fail halfway
        if isinstance(part, OwnsPeriodicThreads):
            self.tasks.add(part)
        part.start()

    def opened(self, name: str, stop: Callable[[], object]) -> None:
        """Note a part that runs already."""
        self._started.append((name, stop))

    @contextmanager
    def stopped_on_failure(self) -> Iterator[None]:
        """Stop what has been started when the block fails, and raise what it failed with."""
        try:
            yield
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop everything in reverse. A part whose stop fails is logged, and keeps no other one from it."""
        while self._started:
            name, stop = self._started.pop()
            try:
                stop()
            except Exception:
                LOG.exception("The part of this process called %s could not be stopped", name)
