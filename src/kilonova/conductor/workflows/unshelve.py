# SPDX-License-Identifier: Apache-2.0
"""Unshelve: a server without a host is scheduled and spawned from its image; a server that has a host is powered on.

::

    claim ──▶ ports ──▶ spawn ──▶ plugged ──▶ resume ──▶ done (active; the image is removed)

The claim uses the server's complete request: zone, hints, group, isolation. After a failure, the server is still
shelved and has its image.
"""

from dataclasses import field, replace
from typing import Any

from kilonova.claims.unshelving import Unshelving
from kilonova.conductor.workflow_engine.effects import ClaimHost, Completed, Effect, Failed, SendToAgent
from kilonova.conductor.workflow_engine.run import Failure, Run, is_unreachable
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import sends
from kilonova.conductor.workflow_engine.workflow import Step, Workflow, complete_or_repeat
from kilonova.conductor.workflows.endings import failed, leave_behind, settled
from kilonova.conductor.workflows.guest_description import find_server, new_guest
from kilonova.conductor.workflows.network_steps import (
    PlugWait,
    demands,
    given_to_ports,
    guest_made,
    held,
    plugged_step,
    ports_step,
    rebind,
    resume_step,
    unbind_again,
)
from kilonova.conductor.workflows.release import release_claim
from kilonova.db import instance_networks, instances, request_specs, unwanted_images
from kilonova.db.core.transaction import Transaction
from kilonova.messaging.messages import DestroyGuest, FaultOf, SpawnGuest, StartGuest, StepReply, StopGuest
from kilonova.model.instance import Instance, PowerState, TaskState
from kilonova.model.port_profiles import PortProfiles, profiles_on
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MoveKind
from kilonova.model.transitions import TRANSITIONS
from kilonova.records import dataclass

_NOT_DONE: Effect = Completed(durable=False)


@dataclass(frozen=True, slots=True)
class UnshelveFacts:
    """Facts of an unshelve. ``image_id``: image of the server's disk; None if the state was only reset to SHELVED.

    ``host``: host of the guest, None until claimed; ``offloaded``: a host has to be claimed.
    ``requested``: the host that the user asked for. ``rezoned``: the user asked for another availability zone, given by
    ``zone`` (None: no zone).
    ``unreachable``: the host was unreachable when it had to remove the guest.
    ``networks``, ``plugging``, ``held``: as in ``network_steps.py``. ``profiles``: what the host gives to the ports.
    """

    image_id: str | None = None
    host: str | None = None
    offloaded: bool = True
    requested: str | None = None
    rezoned: bool = False
    zone: str | None = None
    unreachable: bool = False
    networks: bool = False
    plugging: PlugWait | None = None
    held: bool = False
    profiles: PortProfiles = field(default_factory=dict)


# --- claim ------------------------------------------------------------------------------------------------------------


def _claim(services: Services, run: Run[UnshelveFacts]) -> Effect:
    facts = run.facts
    if not facts.offloaded:
        return Completed()
    with services.database.read() as connection:
        instance, request = find_server(connection, run.instance_uuid)
        info = instance_networks.info_of(connection, run.instance_uuid) if facts.networks else ()
    spec = _spec_of(run, instance, request.spec)
    networks = demands(services, info, spec)
    return ClaimHost(
        replace(spec, networks=networks),
        request.group_uuid,
        lambda chosen: replace(facts, host=chosen.host, profiles=profiles_on(networks, chosen.providers)),
        Unshelving(),
        overtaken=Failed(Failure("The server was changed while a host was sought.")),
    )


def _spec_of(run: Run[UnshelveFacts], instance: Instance, asked: RequestSpec) -> RequestSpec:
    facts = run.facts
    moving = asked.moving(MoveKind.UNSHELVE, instance.uuid, flavor=instance.flavor, host=facts.requested)
    zone = facts.zone if facts.rezoned else asked.availability_zone
    return replace(moving, availability_zone=zone, request_id=run.request_id)


def _give_back(services: Services, run: Run[UnshelveFacts]) -> Effect:
    """Release the claim; the server has no host again."""
    facts = run.facts
    if not facts.offloaded or facts.host is None:
        return _NOT_DONE
    host = facts.host

    def release(tx: Transaction, run: Run[UnshelveFacts]) -> None:
        if facts.unreachable:
            leave_behind(services, tx, host, run.instance_uuid)
        release_claim(tx, run.instance_uuid, instances.group_of(tx.connection, run.instance_uuid), host)
        instances.change(tx, run.instance_uuid, host=None, node=None)

    return Completed(replace(facts, host=None, profiles={}), release)


def _bind_ports(services: Services, run: Run[UnshelveFacts]) -> Effect:
    return rebind(services, run, run.facts.host or "", given_to_ports(services, run, run.facts.profiles))


# --- spawn ------------------------------------------------------------------------------------------------------------


def _spawn(services: Services, run: Run[UnshelveFacts]) -> Effect:
    facts, host = run.facts, run.facts.host or ""
    if not facts.offloaded:
        return SendToAgent(host, StartGuest(run.step_id, run.instance_uuid))
    with services.database.read() as connection:
        instance, request = find_server(connection, run.instance_uuid)
    image = None if facts.image_id is None else services.images.find(facts.image_id)
    if image is None:
        said = f"Image {facts.image_id} of the shelved server no longer exists."
        return Failed(Failure(said, fault_of=FaultOf.REQUEST))
    guest = new_guest(services, host, instance, request, run.row.since, image)
    return SendToAgent(host, SpawnGuest(run.step_id, held(guest, facts)))


def _take_back(run: Run[UnshelveFacts]) -> DestroyGuest | StopGuest:
    message: type[DestroyGuest | StopGuest] = DestroyGuest if run.facts.offloaded else StopGuest
    return message(run.step_id, run.instance_uuid)


def _taken_back(services: Services, run: Run[UnshelveFacts], reply: StepReply) -> Effect:
    """Undo reply handler. If the claimed host is unreachable, the undo of the claim records a pending removal.

    If the server was not offloaded, its host must power the guest off, so the workflow waits for an unreachable host.
    """
    if is_unreachable(reply) and run.facts.offloaded:
        return Completed(replace(run.facts, unreachable=True))
    return complete_or_repeat(services, run, reply)


# --- end of the workflow ----------------------------------------------------------------------------------------------


def _unshelved(tx: Transaction, run: Run[UnshelveFacts], _power_state: PowerState | None) -> None:
    facts = run.facts
    values: dict[str, Any] = {"shelved_image": None, "shelved_at": None}
    if facts.offloaded:
        values["launched_at"] = tx.now
    if facts.rezoned:
        values["availability_zone"] = facts.zone
        request_specs.change(tx, run.instance_uuid, availability_zone=facts.zone)
    settled(tx, run, PowerState.RUNNING)
    instances.change(tx, run.instance_uuid, **values)
    if facts.image_id is not None:
        unwanted_images.note(tx, [facts.image_id])


_EVENT = "compute_unshelve_instance"
UNSHELVE = Workflow(
    "unshelve",
    UnshelveFacts,
    (
        Step(
            "claim",
            do=_claim,
            undo=_give_back,
            event="conductor_unshelve_instance",
            blocking=lambda facts: facts.networks and facts.offloaded,
        ),
        ports_step(_bind_ports, unbind_again, event=_EVENT, applies=lambda facts: facts.networks and facts.offloaded),
        Step(
            "spawn",
            do=_spawn,
            undo=sends(_take_back),
            on_reply=guest_made,
            on_undone=_taken_back,
            shows=lambda facts: TaskState.SPAWNING if facts.offloaded else TaskState.POWERING_ON,
            event=_EVENT,
            blocking=True,
        ),
        plugged_step(_EVENT),
        resume_step(_EVENT),
    ),
    TRANSITIONS["unshelve"],
    settle=_unshelved,
    unwound=failed,
    action="unshelve",
    done="unshelved",
)
