# SPDX-License-Identifier: Apache-2.0
"""The columns of the map of hosts, made from the usage that the operator API returns."""

from collections.abc import Mapping, Sequence
from typing import Any

from kilonova.records import dataclass

UP, DISABLED, DOWN = 0, 1, 2
#: Resource class → label. The map offers these first.
LABELS: Mapping[str, str] = {
    "VCPU": "vCPUs",
    "MEMORY_MB": "Memory",
    "DISK_GB": "Disk",
    "PCPU": "Dedicated CPUs",
    "VGPU": "Virtual GPUs",
}


@dataclass(frozen=True, slots=True)
class HostChanges:
    """New values of some rows of the map."""

    rows: Sequence[int]
    state: Sequence[int]
    columns: Mapping[str, Sequence[int]]

    def as_json(self) -> dict[str, Any]:
        return {"rows": self.rows, "state": self.state, "columns": self.columns}


class HostMap:
    """All hosts of one answer of the operator API, and of the changes since. ``version``: of the last answer.

    ``state``: UP, DISABLED or DOWN of each row. ``shares``: resource class → percentages; -1: the host has none.
    """

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.version: str = answer["version"]
        self.seq: int = answer["seq"]
        self.hosts: list[str] = list(answer["hosts"])
        self.nodes: list[str] = list(answer["nodes"])
        self.zones: list[str] = list(answer["zones"])
        self.servers: list[int] = list(answer["servers"])
        self.state = _states(answer)
        self.resources: dict[str, dict[str, list[int]]] = {
            name: {what: list(values) for what, values in each.items()} for name, each in answer["resources"].items()
        }
        self.shares = {name: _shares(each) for name, each in answer["resources"].items()}
        self._row_of = {pair: row for row, pair in enumerate(zip(self.hosts, self.nodes, strict=True))}

    @property
    def classes(self) -> list[str]:
        """Resource classes, the usual ones first."""
        return [name for name in LABELS if name in self.shares] + sorted(set(self.shares) - set(LABELS))

    def apply(self, answer: Mapping[str, Any]) -> HostChanges | None:
        """Apply the changes of a later answer, and return them; None if a zone has changed or a host is new."""
        pairs = list(zip(answer["hosts"], answer["nodes"], strict=True))
        if any(pair not in self._row_of for pair in pairs):
            return None
        rows = [self._row_of[pair] for pair in pairs]
        if any(self.zones[row] != zone for row, zone in zip(rows, answer["zones"], strict=True)):
            return None
        states, shares = _states(answer), {name: _shares(each) for name, each in answer["resources"].items()}
        for index, row in enumerate(rows):
            self.state[row], self.servers[row] = states[index], answer["servers"][index]
            for name, values in shares.items():
                self.shares[name][row] = values[index]
                for what in ("capacity", "used"):
                    self.resources[name][what][row] = answer["resources"][name][what][index]
        self.version, self.seq = answer["version"], answer["seq"]
        return HostChanges(rows, states, shares)

    def rows_of(self, host: str) -> list[int]:
        """Return the rows of a service host: one for each of its hypervisors."""
        return [row for row, name in enumerate(self.hosts) if name == host]

    def total(self, resource_class: str, rows: Sequence[int] | None = None) -> tuple[int, int]:
        """Return the used amount and the capacity of some rows, or of all."""
        each = self.resources.get(resource_class)
        if each is None:
            return 0, 0
        chosen = range(len(self.hosts)) if rows is None else rows
        return sum(each["used"][row] for row in chosen), sum(each["capacity"][row] for row in chosen)

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the line above the map. ``share``: (used, capacity) of the resource ``class``."""
        name = "VCPU" if "VCPU" in self.shares else next(iter(self.classes), "VCPU")
        return {
            "hosts": len(self.hosts),
            "down": self.state.count(DOWN),
            "disabled": self.state.count(DISABLED),
            "servers": sum(self.servers),
            "class": LABELS.get(name, name),
            "share": self.total(name),
        }

    def as_columns(self, aggregate_of: Mapping[str, str]) -> dict[str, Any]:
        """Return what the script of the map needs. ``aggregate_of``: host → the aggregate in which it is shown."""
        zones = sorted(set(self.zones))
        names = [aggregate_of.get(host, "") for host in self.hosts]
        groups = sorted(set(zip(self.zones, names, strict=True)))
        number = {group: index for index, group in enumerate(groups)}
        return {
            "version": self.version,
            "zones": zones,
            "aggregates": [{"zone": zones.index(zone), "name": name} for zone, name in groups],
            "in_aggregate": [number[group] for group in zip(self.zones, names, strict=True)],
            "names": self.hosts,
            "state": self.state,
            "columns": self.shares,
        }


def shown_aggregates(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return host → the first of its aggregates by name; one that is an availability zone only if it has no other."""
    found: dict[str, tuple[bool, str]] = {}
    for aggregate in answer["aggregates"]:
        candidate = (aggregate["availability_zone"] is not None, aggregate["name"])
        for host in aggregate["hosts"]:
            found[host] = min(found.get(host, candidate), candidate)
    return {host: name for host, (_, name) in found.items()}


def _states(answer: Mapping[str, Any]) -> list[int]:
    return [
        (DISABLED if disabled else UP) if up else DOWN
        for up, disabled in zip(answer["up"], answer["disabled"], strict=True)
    ]


def _shares(column: Mapping[str, Sequence[int]]) -> list[int]:
    """Return percentages, rounded down, so that 100 means full; -1 without capacity."""
    return [
        100 * used // capacity if capacity else -1
        for used, capacity in zip(column["used"], column["capacity"], strict=True)
    ]
