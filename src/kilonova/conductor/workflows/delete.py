# SPDX-License-Identifier: Apache-2.0
"""Delete: destroy the guest on every host where it may be, remove its ports, then mark the server deleted.

One transaction releases the resources and marks the server deleted. The workflow starts when the server's other
workflows have ended or rolled back.
"""

from dataclasses import replace

from sqlalchemy.engine import Connection

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Ended, Failed, Gone, SendToAgent
from kilonova.conductor.workflow_engine.run import Failure, Run, is_unreachable
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way
from kilonova.conductor.workflow_engine.workflow import Workflow
from kilonova.conductor.workflows import network_steps
from kilonova.conductor.workflows.endings import fail, left_behind
from kilonova.conductor.workflows.release import release_server
from kilonova.db import group_guards, instance_networks, instances, pending_removals, shelved
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import DestroyGuest, StepReply
from kilonova.model.found_guest import RemovalReason
from kilonova.model.instance import PowerState, VmState
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class DeleteFacts:
    """Facts of a delete. ``hosts``: hosts where the guest may be (two for a server in a move); None before the lookup.

    ``clean``: hosts that have destroyed the guest or are unreachable. ``absent``: unreachable hosts without a removal
    record; only in journals of an earlier release. ``forced``: the delete was requested by forceDelete, and the server
    was not being built. ``networks``: the server may have interfaces.
    """

    hosts: tuple[str, ...] | None = None
    clean: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    forced: bool = False
    networks: bool = False

    @property
    def host(self) -> str | None:
        return self.hosts[0] if self.hosts else None

    @property
    def left(self) -> tuple[str, ...]:
        """The hosts that still have to destroy the guest."""
        return tuple(host for host in self.hosts or () if host not in self.clean)


def hosts_of_guest(connection: Connection, instance_uuid: str) -> tuple[str, ...] | None:
    """Return the hosts where the guest of a server may be; None if the server does not exist."""
    found = instances.hosts_of(connection, [instance_uuid]).get(instance_uuid)
    return None if found is None else tuple(sorted(found))


def _destroy_guest(services: Services, run: Run[DeleteFacts]) -> Effect:
    """Order the next host to destroy the guest; complete if no host is left."""
    facts = run.facts
    if facts.hosts is None:
        with services.database.read() as connection:
            facts = replace(facts, hosts=hosts_of_guest(connection, run.instance_uuid))
    if facts.hosts is None:
        return Gone()
    if not facts.left:
        return Completed(facts)
    return SendToAgent(facts.left[0], DestroyGuest(run.step_id, run.instance_uuid), facts=facts)


def _guest_destroyed(services: Services, run: Run[DeleteFacts], reply: StepReply) -> Effect:
    """Record that a host no longer has the guest. An unreachable host gets a removal record for the guest instead.

    One transaction commits the removal record and the step. If the host has returned by then, the step is repeated.
    """
    facts = replace(run.facts, clean=(*run.facts.clean, reply.host))
    if is_unreachable(reply):
        return Completed(facts, left_behind(services, reply, RemovalReason.DELETED))
    if reply.error is not None:
        return Failed(Failure.of(reply))
    return Completed(facts)


def _failed(tx: Transaction, run: Run[DeleteFacts]) -> None:
    """Put the server in error. A soft-deleted server keeps its state, so that it can be reclaimed or restored later."""
    hidden = instances.get(tx.connection, run.instance_uuid).vm_state is VmState.SOFT_DELETED
    fail(tx, run, None if hidden else TRANSITIONS["delete"].failed, run.failure.known_power_state)


def _vanish(tx: Transaction, run: Run[DeleteFacts], _power_state: PowerState | None) -> None:
    for host in run.facts.absent:
        pending_removals.note(tx, host, run.instance_uuid, RemovalReason.DELETED)
    release_server(tx, run.instance_uuid)
    group_guards.forget_members(tx, [run.instance_uuid])
    if run.facts.networks:
        instance_networks.forget(tx, [run.instance_uuid])
    shelved.forget_image(tx, run.instance_uuid)
    instances.mark_deleted(tx, run.instance_uuid)


_EVENT = "compute_terminate_instance"
DELETE = Workflow(
    "delete",
    DeleteFacts,
    (
        one_way("destroy", _destroy_guest, on_reply=_guest_destroyed, event=_EVENT),
        # This step is for the second host of a server in a move. It is a step of its own so that the result of the
        # first host is journalled before the second host is contacted: if another control process serves the agent of
        # the second host, the workflow is handed over to that process.
        replace(
            one_way("destroy-elsewhere", _destroy_guest, on_reply=_guest_destroyed, event=_EVENT),
            applies=lambda facts: bool(facts.left),
        ),
        network_steps.ports_step(network_steps.remove_ports, event=_EVENT),
    ),
    TRANSITIONS["delete"],
    settle=_vanish,
    unwound=lambda *_: Ended(_failed),
    action="delete",
    done="deleted",
    point_of_no_return="destroy-elsewhere",
    overtaken_by=frozenset(),
    urgent=True,
)
