# SPDX-License-Identifier: Apache-2.0
"""Guests that change their power state by themselves, told from those that were told to.

libvirt says that something happened to a domain. What counts is the state it is in when somebody asks, compared with
the state that was known last: an event too many says nothing, and after an event too few the next one says all.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from kilonova.model.instance import PowerState


class PowerChanges:
    """Those of one host. ``states``: looks at all guests that there are."""

    def __init__(self, states: Callable[[], Mapping[str, PowerState]]) -> None:
        self._states = states
        self._lock = threading.Lock()
        self._known: dict[str, PowerState] = {}
        self._has_looked = False
        self._touched: set[str] = set()
        self._is_all_touched = True
        self._ordered: Counter[str] = Counter()

    def touch(self, uuid: str) -> None:
        """Something has happened to a domain."""
        with self._lock:
            self._touched.add(uuid)

    def touch_all(self) -> None:
        """Events may have been missed."""
        with self._lock:
            self._is_all_touched = True

    @contextmanager
    def ordered(self, uuid: str, after: PowerState) -> Iterator[None]:
        """What happens to a guest within the block was ordered. ``after``: its state then, unless the block raises."""
        with self._lock:
            self._ordered[uuid] += 1
        try:
            yield
        except BaseException:
            self._end(uuid)  # whoever ordered it is told of the failure with the state that was found then
            raise
        self._end(uuid, after)

    def take(self) -> Mapping[str, PowerState]:
        """Return the guests whose state is another one than was known last, since the last call.

        The first call takes those as they are of which nothing is known yet: all are reported when an agent starts.
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
