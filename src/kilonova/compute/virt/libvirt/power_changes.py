# SPDX-License-Identifier: Apache-2.0
"""Detection of power state changes that no order caused.

A libvirt event only schedules a check of its domain: :meth:`PowerChanges.take` compares the states of these domains
with their last known states. So a superfluous event has no effect, and the next event makes up for a missed event.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kilonova.model.instance import PowerState


class PowerChanges:
    """Power state changes of one host's guests that no order caused. ``states``: returns the states of all guests."""

    def __init__(self, states: Callable[[], Mapping[str, PowerState]]) -> None:
        self._states = states
        self._lock = threading.Lock()
        self._known: dict[str, PowerState] = {}
        self._has_looked = False
        self._touched: set[str] = set()
        self._is_all_touched = True
        self._ordered: Counter[str] = Counter()

    def touch(self, uuid: str) -> None:
        """Schedule a check of a domain, after an event."""
        with self._lock:
            self._touched.add(uuid)

    def touch_all(self) -> None:
        """Schedule a check of all domains, since events may have been missed."""
        with self._lock:
            self._is_all_touched = True

    @contextmanager
    def ordered(self, uuid: str, after: PowerState) -> Iterator[None]:
        """Treat state changes of a guest within the block as ordered, so that they are not reported.

        ``after``: state of the guest after the block, unless the block raises an exception.
        """
        with self._lock:
            self._ordered[uuid] += 1
        try:
            yield
        except BaseException:
            self._end(uuid)  # the error reply to the order contains the present state of the guest
            raise
        self._end(uuid, after)

    def take(self) -> Mapping[str, PowerState]:
        """Make the scheduled checks; return the guests whose power state differs from their last known state.

        The first call does not return guests that are not known yet: the agent reports all guests when it starts.
        """
        with self._lock:
            if not self._touched and not self._is_all_touched:
                return {}
            touched, self._touched = self._touched, set()
            is_all, self._is_all_touched = self._is_all_touched, False
        try:
            states = self._states()
        except BaseException:
            with self._lock:
                self._touched |= touched
                self._is_all_touched |= is_all
            raise
        with self._lock:
            known = self._known
            if not self._has_looked:
                self._has_looked = True
                for uuid in states.keys() - self._ordered.keys():
                    known.setdefault(uuid, states[uuid])
            changes: dict[str, PowerState] = {}
            for uuid in {*known, *states} if is_all else touched:
                if self._ordered[uuid]:
                    self._touched.add(uuid)
                    continue
                state = states.get(uuid, PowerState.NOSTATE)
                if known.get(uuid, PowerState.NOSTATE) is not state:
                    changes[uuid] = state
                    self._note(uuid, state)
            return changes

    def _end(self, uuid: str, after: PowerState | None = None) -> None:
        with self._lock:
            self._ordered[uuid] -= 1
            if not self._ordered[uuid]:
                del self._ordered[uuid]
            if after is not None:
                self._note(uuid, after)
            self._touched.add(uuid)

    def _note(self, uuid: str, state: PowerState) -> None:
        if state is PowerState.NOSTATE:
            self._known.pop(uuid, None)
        else:
            self._known[uuid] = state
