# SPDX-License-Identifier: Apache-2.0
"""Interface of placings: how a claim changes a server that gets a host (build, move or unshelve).

``claims/commit.py`` handles what all claims have in common: capacity, NUMA cells, devices, groups, the journal and
action events. A placing adds the guards and changes of the server's own row: a build gives a server its first host, a
move claims a destination in addition to the source. Claims of all placings share transactions, so a placing writes the
rows of many claims at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Protocol

import msgspec

from kilonova.db import isolation_guard
from kilonova.db.core.transaction import Transaction
from kilonova.db.instance_actions import EndedEvent
from kilonova.db.workflows import WorkflowRow
from kilonova.model.host_devices import DeviceShare
from kilonova.model.instance import TaskState
from kilonova.records import dataclass


class Chosen(msgspec.Struct, frozen=True):
    """The host that was chosen for one server, as passed to the server's workflow.

    ``devices``: the NUMA cells and PCI devices to take on the host; None if the server needs none.
    ``providers``: suffix of each request group → uuid of the resource provider that supplies it.
    """

    host: str
    node: str
    provider_uuid: str
    devices: DeviceShare | None = None
    providers: Mapping[str, str] = {}


class NextStep(msgspec.Struct, frozen=True):
    """Changes of a server's workflow that are committed together with the server's claim.

    ``row``: the workflow's next journal row. ``shows``: new task state of the server; None leaves it unchanged.
    ``ended``: the instance action event that finishes with the claim.
    """

    row: WorkflowRow
    shows: TaskState | None = None
    ended: EndedEvent | None = None


@dataclass(slots=True)
class FallsShort(Exception):
    """A guard of a claim failed. ``gone``: instances that no longer wait for the claim."""

    what: str
    gone: frozenset[str] = field(default_factory=frozenset)


class Placing(Protocol):
    """A kind of placing: writes the server-specific rows of claims.

    One call writes the rows of many claims. Values that differ between the claims are fields of each claim's placing.
    """

    @property
    def home(self) -> str | None:
        """The present service host of the server, or None if the server has no host."""

    @classmethod
    def take(cls, tx: Transaction, claims: Sequence["Claim"]) -> None:
        """Check that the instances still wait for their claims, and write hosts and task states. Raises: FallsShort."""

    @classmethod
    def record(cls, tx: Transaction, claims: Sequence["Claim"]) -> None:
        """Write the consumers of the allocations, and add the servers' new hosts to the change log."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """A claim of one host for one instance.

    ``next_step``: changes of the instance's workflow that are committed with the claim.
    ``allocations``: provider id → resource class id → amount.
    ``devices``: the NUMA cells and PCI devices to take on the node ``node_uuid``.
    ``isolation_version``: version number of the isolation rules and zones that the decision used.
    """

    claim_id: str
    instance_uuid: str
    project_id: str
    user_id: str
    allocations: Mapping[int, Mapping[int, int]]
    host: str
    node: str
    next_step: NextStep
    placing: Placing
    group_uuid: str | None = None
    node_uuid: str = ""
    devices: DeviceShare | None = None
    isolation_version: int = 0
    flavor_id: str = ""
    image_properties: Mapping[str, str] = {}

    @property
    def workflow(self) -> WorkflowRow:
        """The workflow's journal row after the claim."""
        return self.next_step.row

    def shown_after(self, task: TaskState) -> str:
        """Return the task state that a server with task state ``task`` has after the claim."""
        return (self.next_step.shows or task).value


def require_isolation(tx: Transaction, claims: Sequence[Claim]) -> None:
    """Check that isolation rules and zones have not changed since the decision. Raises: FallsShort."""
    if {claim.isolation_version for claim in claims} != {isolation_guard.version(tx.connection)}:
        raise FallsShort("the isolation rules or zones of aggregates have changed")
