# SPDX-License-Identifier: Apache-2.0
"""The host aggregates, with their members as rows of the host table. Axes: A aggregates, H hosts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kilonova.model.aggregate import Aggregate
from kilonova.records import dataclass
from kilonova.scheduler.isolation_rules import Isolation, compile_isolation

BoolArray = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class AggregateIndex:
    """The host aggregates, with their members as rows of the table. Shapes: ``membership`` (A, H) bool.

    ``isolation``: the compiled isolation rules of the aggregates, or None if no aggregate has a rule.
    ``isolation_version``: the version number, in the database, of these rules and their hosts.
    """

    aggregates: tuple[Aggregate, ...]
    membership: BoolArray
    isolation: Isolation | None = None
    isolation_version: int = 0

    @classmethod
    def of(
        cls, aggregates: Sequence[Aggregate], hosts: Sequence[str], *, isolation_version: int = 0
    ) -> "AggregateIndex":
        """Build the index of ``aggregates``.

        ``hosts``: the service host name of each row. If a member of an aggregate is not in ``hosts``, it is ignored.
        """
        rows = rows_by_name(hosts)
        membership = np.zeros((len(aggregates), len(hosts)), dtype=np.bool_)
        for index, aggregate in enumerate(aggregates):
            members = [row for host in aggregate.hosts for row in rows.get(host, ())]
            membership[index, members] = True
        return cls(tuple(aggregates), membership, compile_isolation(aggregates, membership), isolation_version)

    def take(self, rows: NDArray[np.int64] | slice) -> "AggregateIndex":
        """Return the same aggregates for a table that has only the given rows."""
        isolation = self.isolation and replace(self.isolation, class_of=self.isolation.class_of[rows])
        return replace(self, membership=self.membership[:, rows], isolation=isolation)

    def hosts_in_any(self, wanted: Sequence[bool] | BoolArray) -> BoolArray:
        """Return the hosts that are members of at least one of the ``wanted`` aggregates. Shapes: (A,) → (H,)."""
        mask = np.asarray(wanted, dtype=np.bool_)
        hosts: BoolArray = np.logical_or.reduce(self.membership[mask])
        return hosts

    def zone_names(self, default: str) -> NDArray[np.object_]:
        """Return the availability zone of each host. ``default``: that of hosts that are in no zone. Shapes: → (H,)."""
        names = np.full(self.membership.shape[1], default, dtype=object)
        for aggregate, members in zip(self.aggregates, self.membership, strict=True):
            if aggregate.availability_zone is not None:
                names[members] = aggregate.availability_zone
        return names

    def of_host(self, row: int) -> tuple[Aggregate, ...]:
        """Return the aggregates of one host, in table order."""
        return tuple(self.aggregates[index] for index in np.flatnonzero(self.membership[:, row]))


def rows_by_name(names: Sequence[str]) -> dict[str, list[int]]:
    """Return name → rows of the hosts with this name."""
    rows: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        rows.setdefault(name, []).append(row)
    return rows
