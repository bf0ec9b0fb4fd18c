# SPDX-License-Identifier: Apache-2.0
"""How the rows of a claim are written: what a server has to wait for, and what it becomes once it has a host.

Capacity, cells and devices, groups, the journal and the events of actions are the same for every claim
(``claims/commit.py``). A placing adds what differs: a build gives a server its first host, a move takes a destination
beside the source. Claims of all placings share transactions, so a placing writes the rows of many claims at once.
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
    """What was decided for one server, as far as its workflow has to know it.

    ``devices``: what it takes of the cells and pools of the host, None when it asked for nothing there.
    """

    host: str
    node: str
    provider_uuid: str
    devices: DeviceShare | None = None


@dataclass(frozen=True, slots=True)
class NextStep:
    """What the workflow of a server commits with its claim.

    ``row``: its next row in the journal. ``shows``: the task state of the server from then on; None: as before.
    ``ended``: the step that users see as ended with the claim.
    """

    row: WorkflowRow
    shows: TaskState | None = None
    ended: EndedEvent | None = None


@dataclass(slots=True)
class FallsShort(Exception):
    """Some guard of a claim did not hold. ``gone``: instances that no longer wait for it."""

    what: str
    gone: frozenset[str] = field(default_factory=frozenset)


class Placing(Protocol):
    """Writes the rows of its claims. What differs from claim to claim are its fields."""

    @property
    def home(self) -> str | None:
        """The service host that the server has already, None when it is new."""

    @classmethod
    def take(cls, tx: Transaction, claims: Sequence["Claim"]) -> None:
        """Check that each instance still waits for its claim; write the host and the task. Raises: FallsShort."""

    @classmethod
    def record(cls, tx: Transaction, claims: Sequence["Claim"]) -> None:
        """Write the consumers, whose allocations follow, and tell the mirrors where servers are now."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One instance on one host. ``next_step``: of its workflow, committed with it.

    ``allocations``: provider id → resource class id → amount.
    ``devices``: what it takes of the cells and pools of the hypervisor ``node_uuid``.
    ``isolation_version``: of the isolation rules and zones that the host was chosen by.
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
        """The journal's row of its workflow after the claim."""
        return self.next_step.row

    def shown_after(self, task: TaskState) -> str:
        """Return the task state that a server with ``task`` has after the claim."""
        return (self.next_step.shows or task).value


def require_isolation(tx: Transaction, claims: Sequence[Claim]) -> None:
    """Check that isolation rules and zones are those that the claims were decided by. Raises: FallsShort."""
    if {claim.isolation_version for claim in claims} != {isolation_guard.version(tx.connection)}:
        raise FallsShort("the isolation rules or zones of aggregates have changed")
