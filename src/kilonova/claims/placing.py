# SPDX-License-Identifier: Apache-2.0
"""Interface between claims and kinds of placing: guards on the server's row, and its changes when it gets a host.

All claims share capacity, NUMA cells, devices, groups, the journal and action events (``claims/commit.py``). A placing
adds the rest: a build gives a server its first host, a move claims a destination besides the source. Claims of all
placings share transactions, so a placing writes the rows of many claims at once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from kilonova.db import isolation_guard
from kilonova.db.core.transaction import Transaction
from kilonova.db.instance_actions import EndedEvent
from kilonova.db.workflows import WorkflowRow
from kilonova.model.host_devices import DeviceShare
from kilonova.model.instance import TaskState


@dataclass(frozen=True, slots=True)
class Chosen:
    """The decision for one server, as its workflow gets it.

    ``devices``: the NUMA cells and devices to take on the host; None if the server needs none.
    """

    host: str
    node: str
    provider_uuid: str
    devices: DeviceShare | None = None


@dataclass(frozen=True, slots=True)
class NextStep:
    """Changes of a server's workflow that are committed with its claim.

    ``row``: the workflow's next journal row. ``shows``: new task state of the server; None: unchanged.
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
    """Writes the server-specific rows of claims. Values that differ between claims are its fields."""

    @property
    def home(self) -> str | None:
        """The present service host of the server; None if it has none."""

    @classmethod
    def take(cls, tx: Transaction, claims: Sequence["Claim"]) -> None:
        """Check that the instances still wait for their claims; write host and task state. Raises: FallsShort."""

    @classmethod
    def record(cls, tx: Transaction, claims: Sequence["Claim"]) -> None:
        """Write the consumers of the allocations, and log the servers' new hosts to the change log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of one host for one instance. ``next_step``: of its workflow, committed with it.

    ``allocations``: provider id → resource class id → amount.
    ``devices``: the NUMA cells and devices to take on the hypervisor ``node_uuid``.
    ``isolation_version``: version of the isolation rules and zones that the decision used.
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
    image_properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def workflow(self) -> WorkflowRow:
        """The workflow's journal row after the claim."""
        return self.next_step.row

    def shown_after(self, task: TaskState) -> str:
        """Return the task state after the claim of a server that had ``task``."""
        return (self.next_step.shows or task).value


def require_isolation(tx: Transaction, claims: Sequence[Claim]) -> None:
    """Check that isolation rules and zones have not changed since the decision. Raises: FallsShort."""
    if {claim.isolation_version for claim in claims} != {isolation_guard.version(tx.connection)}:
        raise FallsShort("the isolation rules or zones of aggregates have changed")
