# SPDX-License-Identifier: Apache-2.0
"""The instances on each node, as in the database, by uuid and by kind (flavor and image properties)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kilonova.db.change_log.changes import LoggedInstance
from kilonova.mirror.layout import NodeRows
from kilonova.mirror.node_ids import NodeIds
from kilonova.records import dataclass
from kilonova.scheduler.guests import Counts, GuestCounts, GuestKind, GuestTally, SomeGuests, guest_kind


class Placed(NamedTuple):
    """The place of an instance (node id), its kind, and whether it has a running io-heavy operation."""

    node_id: int
    io_heavy: bool
    kind: GuestKind


class Instances(dict[str, Placed]):
    """Instance uuid → place of the instance. A thread that writes must hold the mirror's lock."""

    def __init__(self, node_ids: NodeIds) -> None:
        super().__init__()
        self._node_ids = node_ids
        self._kinds: dict[GuestKind, GuestKind] = {}

    def place(self, uuid: str, value: LoggedInstance) -> Placed:
        """Store an instance from its change log value. The instance must be on a host."""
        kind = guest_kind(value.flavor, value.image)
        kind = self._kinds.setdefault(kind, kind)
        placed = self[uuid] = Placed(self._node_ids.node(value.host, value.node), value.io, kind)
        return placed

    def clear(self) -> None:
        super().clear()
        self._kinds.clear()


class InstanceRows(Mapping[str, int]):
    """Instance uuid → row of the instance's host in the host table. The row is determined at each lookup."""

    def __init__(self, instances: Mapping[str, Placed], row_of: NodeRows) -> None:
        self._instances = instances
        self._row_of = row_of

    def __getitem__(self, uuid: str) -> int:
        return self._row_of[self._instances[uuid].node_id]

    def __iter__(self) -> Iterator[str]:
        return (uuid for uuid, placed in list(self._instances.items()) if placed.node_id in self._row_of)

    def __len__(self) -> int:
        return sum(1 for _ in self)


@dataclass(frozen=True, slots=True)
class PresentGuests:
    """Counts of the instances on each row's host at the time of the call, including instances of assumed claims."""

    lock: AbstractContextManager[Any]
    tally: Callable[[], GuestTally]
    row_of: NodeRows

    def count(self, row: int, kind: GuestKind) -> None:
        """Do nothing: a server that the current decision places has an assumed claim, so it is already counted."""

    def take(self, rows: NDArray[np.int64]) -> GuestCounts:
        return SomeGuests(self, rows)

    def of_other_flavors(self, flavor_id: str) -> Counts:
        with self.lock:
            return self.tally().columns(self.row_of).of_other_flavors(flavor_id)

    def with_image_property(self, name: str, value: str) -> Counts:
        with self.lock:
            return self.tally().columns(self.row_of).with_image_property(name, value)


@dataclass(slots=True)
class CopiedGuests:
    """Counts of a copy of the instances, which later changes of the mirror do not affect. Counted at the first use.

    ``instances``: the copy. ``assumed``: node id and kind of each instance of an assumed claim.
    """

    instances: Mapping[str, Placed]
    assumed: Sequence[tuple[int, GuestKind]]
    row_of: NodeRows
    _tally: GuestTally | None = field(default=None, init=False)

    def count(self, row: int, kind: GuestKind) -> None:
        """Do nothing: the table counts the instances that its holder adds."""

    def take(self, rows: NDArray[np.int64]) -> GuestCounts:
        return SomeGuests(self, rows)

    def of_other_flavors(self, flavor_id: str) -> Counts:
        return self._counted().columns(self.row_of).of_other_flavors(flavor_id)

    def with_image_property(self, name: str, value: str) -> Counts:
        return self._counted().columns(self.row_of).with_image_property(name, value)

    def _counted(self) -> GuestTally:
        if self._tally is None:
            self._tally = tally = GuestTally()
            for placed in self.instances.values():
                tally.add(placed.node_id, placed.kind, 1)
            for node_id, kind in self.assumed:
                tally.add(node_id, kind, 1)
        return self._tally
