# SPDX-License-Identifier: Apache-2.0
"""The usage of all hosts in columns, and the last answers that contained it, to answer with the changed hosts only."""

import threading
from collections import OrderedDict
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray

from kilonova.identifiers import new_uuid
from kilonova.records import dataclass
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray

#: Number of answers that a process remembers; each takes about 200 bytes for each host.
_REMEMBERED = 4


@dataclass(frozen=True, eq=False)
class HostUsage:
    """The usage of all hosts at one moment. Axes: H hosts (hypervisors), R resource classes.

    ``seq``: the change-log number. ``hosts``, ``nodes``, ``zones``: (H,) service host, hypervisor hostname, zone.
    ``capacity``, ``used``: (H, R); a class that a host lacks has capacity 0. ``servers``: (H,) their number.
    ``up``, ``disabled``: (H,) bool.
    """

    seq: int
    hosts: tuple[str, ...]
    nodes: tuple[str, ...]
    zones: tuple[str, ...]
    classes: tuple[str, ...]
    capacity: IntArray
    used: IntArray
    servers: IntArray
    up: BoolArray
    disabled: BoolArray

    @classmethod
    def of(cls, table: HostTable, seq: int, *, service_down_time_s: float, default_zone: str) -> "HostUsage":
        """Return the usage of the hosts of a table. ``default_zone``: that of hosts in no availability zone."""
        present = [index for index in range(len(table.resource_classes)) if table.capacity[:, index].any()]
        return cls(
            seq=seq,
            hosts=table.hosts,
            nodes=table.nodes,
            zones=tuple(table.aggregates.zone_names(default_zone)),
            classes=tuple(table.resource_classes[index] for index in present),
            capacity=table.capacity[:, present],
            used=table.used[:, present],
            servers=table.num_instances,
            up=table.heard_within(service_down_time_s) & ~table.forced_down,
            disabled=table.disabled,
        )

    def changed_since(self, earlier: "HostUsage") -> IntArray | None:
        """Return the rows that differ from those of an earlier moment; None if the rows are not the same hosts."""
        if (self.hosts, self.nodes, self.classes) != (earlier.hosts, earlier.nodes, earlier.classes):
            return None
        changed = (self.capacity != earlier.capacity).any(axis=1) | (self.used != earlier.used).any(axis=1)
        changed |= self.servers != earlier.servers
        changed |= (self.up != earlier.up) | (self.disabled != earlier.disabled)
        if self.zones != earlier.zones:
            changed |= self.zone_names != earlier.zone_names
        return np.flatnonzero(changed)

    @cached_property
    def zone_names(self) -> NDArray[np.str_]:
        """``zones`` as an array."""
        return np.array(self.zones, dtype=np.str_)


class UsageHistory:
    """The last answers of this process, by version. A version is unknown to other processes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._prefix, self._numbers = new_uuid()[:8], count(1)
        self._answers: OrderedDict[str, HostUsage] = OrderedDict()

    def find(self, version: str | None) -> HostUsage | None:
        """Return the usage that a client has, or None if it is unknown or forgotten."""
        if version is None:
            return None
        with self._lock:
            return self._answers.get(version)

    def add(self, usage: HostUsage) -> str:
        """Remember the usage of an answer, and return its version."""
        with self._lock:
            version = f"{self._prefix}-{next(self._numbers)}"
            self._answers[version] = usage
            if len(self._answers) > _REMEMBERED:
                self._answers.popitem(last=False)
            return version
