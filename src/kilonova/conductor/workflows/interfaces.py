# SPDX-License-Identifier: Apache-2.0
"""Attach a network interface to a server, or detach one.

::

    attach: claim ──▶ port ──▶ plug ──▶ done    a port is bound, then the guest gets the interface
              └─ only for a port that requests resources or a PCI device of the host
    detach: unplug ──▶ port ──▶ done            the guest loses the interface, then the port is deleted or released
               └─ point of no return              and its resources and its device are freed

The server keeps its state and gets no task state. Other actions of the server wait until the workflow has ended.
"""

from collections.abc import Mapping
from dataclasses import field, replace

from kilonova.conductor.workflow_engine.effects import Completed, Effect, Ended, Failed, SendToAgent, Unwound
from kilonova.conductor.workflow_engine.run import DELETES, Failure, Interrupt, Run
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, sends
from kilonova.conductor.workflow_engine.workflow import Step, Workflow
from kilonova.conductor.workflows.guest_description import find_server
from kilonova.conductor.workflows.network_steps import FAULTS_OF_REQUESTS, given_to_ports, read, refusal
from kilonova.db import allocation_changes, instance_networks, instances, network_events, port_devices
from kilonova.db.core.transaction import Transaction
from kilonova.errors import InvalidRequest, NoValidHost, PortBindingFailed, Unavailable
from kilonova.messaging.messages import AttachInterface, DetachInterface, FaultOf, StepReply
from kilonova.model.instance import PowerState
from kilonova.model.network_info import Vif, find_vif
from kilonova.model.network_request import RequestedNetwork
from kilonova.model.port_profiles import PCI_VNIC_TYPES, PortProfiles, profiles_on
from kilonova.model.request_spec import RequestedNetwork as Demand
from kilonova.model.transitions import TRANSITIONS
from kilonova.network import ports
from kilonova.network.port_changes import PortInUse
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class AttachFacts:
    """Facts of an attach. ``host``: host of the guest. ``network``: the requested interface.

    ``demand``: what its port requires of the host; None if it requires nothing. ``claimed``: what the host gives:
    resource provider → class → amount. ``profiles``: the same for the port's profile. ``has_device``: whether the port
    holds a PCI device of the host.
    ``vif``: the new interface; None until its port is bound.
    """

    host: str
    network: RequestedNetwork
    vif: Vif | None = None
    demand: Demand | None = None
    claimed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    profiles: PortProfiles = field(default_factory=dict)
    has_device: bool = False


@dataclass(frozen=True, slots=True)
class DetachFacts:
    """Facts of a detach. ``host``: host of the guest. ``port_id``: port of the interface.

    ``freed``: what the port has used on the host, after the port was removed.
    """

    host: str
    port_id: str
    freed: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


def _must_claim(facts: AttachFacts) -> bool:
    """Tell whether the port requests resources or a PCI device."""
    demand = facts.demand
    return demand is not None and (bool(demand.groups) or demand.vnic_type in PCI_VNIC_TYPES)


def _claim(services: Services, run: Run[AttachFacts]) -> Effect:
    """Claim what the port requests, in addition to what the server has on its host already."""
    facts, demand = run.facts, run.facts.demand
    assert demand is not None
    with services.database.read() as connection:
        instance, request = find_server(connection, run.instance_uuid)
        cells = {part.cell for part in port_devices.share_of(connection, run.instance_uuid).cells}
    spec = replace(request.spec, flavor=instance.flavor, networks=(demand,))
    try:
        room = services.claimer.find_room(spec, facts.host, instance.node or "", cells)
    except (NoValidHost, InvalidRequest) as error:
        return Failed(Failure(error.message, host=facts.host, fault_of=FaultOf.REQUEST, undone=True, code=400))
    amounts = room.allotment.amounts

    def write(tx: Transaction, run: Run[AttachFacts]) -> None:
        if amounts:
            allocation_changes.add(tx, run.instance_uuid, amounts)
        for port_id, pool in room.pools.items():
            port_devices.add(tx, run.instance_uuid, room.node_uuid, port_id, pool)

    profiles = profiles_on((demand,), room.allotment.providers)
    return Completed(replace(facts, claimed=amounts, profiles=profiles, has_device=bool(room.pools)), write)


def _give_back(_services: Services, run: Run[AttachFacts]) -> Effect:
    facts = run.facts
    if not (facts.claimed or facts.has_device) or run.interrupt is Interrupt.DELETE:
        return Completed(durable=False)

    def write(tx: Transaction, run: Run[AttachFacts]) -> None:
        allocation_changes.subtract(tx, run.instance_uuid, facts.claimed)
        port_devices.drop(tx, run.instance_uuid, facts.network.port_id or "")

    return Completed(replace(facts, claimed={}, has_device=False), write)


def _make_port(services: Services, run: Run[AttachFacts]) -> Effect:
    """Create a port, or use the user's.

    If the network service does not answer, the attach fails, because the user waits for the result.
    """
    facts, server = run.facts, read(services, run.instance_uuid, run.facts.host)
    if facts.network.port_id is not None and find_vif(server.info, facts.network.port_id) is not None:
        error = PortInUse(facts.network.port_id)
        return Failed(replace(refusal(error, facts.host), undone=True))
    try:
        vif = ports.attach_port(
            services.network,
            server.owner,
            server.info,
            facts.network,
            facts.host,
            repeated=run.repeated,
            profiles=given_to_ports(services, run, facts.profiles),
        )
    except FAULTS_OF_REQUESTS as error:
        return Failed(refusal(error, facts.host))
    except PortBindingFailed as error:
        return Failed(Failure(error.message, host=facts.host))
    except Unavailable as error:
        return Failed(Failure(error.message, host=facts.host, fault_of=FaultOf.REQUEST, code=503))
    return Completed(replace(facts, vif=vif))


def _remove_new_port(services: Services, run: Run[AttachFacts]) -> Effect:
    facts, server = run.facts, read(services, run.instance_uuid, run.facts.host)
    if facts.vif is None:
        ports.undo_attach(services.network, server.owner, server.info, facts.network)
    else:
        ports.detach_port(services.network, server.owner, facts.vif)
    return Completed(durable=False)


def _plug(run: Run[AttachFacts]) -> AttachInterface | None:
    return None if run.facts.vif is None else AttachInterface(run.step_id, run.instance_uuid, run.facts.vif)


def _take_out(run: Run[AttachFacts]) -> DetachInterface | None:
    return None if run.facts.vif is None else DetachInterface(run.step_id, run.instance_uuid, run.facts.vif)


def _attached(tx: Transaction, run: Run[AttachFacts], _power_state: PowerState | None) -> None:
    info, vif = instance_networks.info_of(tx.connection, run.instance_uuid), run.facts.vif
    if vif is not None and find_vif(info, vif.port_id) is None:
        plugged = {each.event.tag for each in network_events.of_server(tx.connection, run.instance_uuid)}
        here = replace(vif, active=vif.active or vif.port_id in plugged)
        instance_networks.store_info(tx, run.instance_uuid, (*info, here))


def _unplug(services: Services, run: Run[DetachFacts]) -> Effect:
    facts = run.facts
    vif = find_vif(read(services, run.instance_uuid, None).info, facts.port_id)
    if vif is None:
        return Completed(final=True)
    return SendToAgent(facts.host, DetachInterface(run.step_id, run.instance_uuid, vif))


def _plug_again(services: Services, run: Run[DetachFacts]) -> Effect:
    """Undo hook: attach the interface to the guest again, in case its host removed it before reporting an error."""
    vif = find_vif(read(services, run.instance_uuid, None).info, run.facts.port_id)
    if vif is None or run.interrupt is Interrupt.DELETE:
        return Completed(durable=False)
    return SendToAgent(run.facts.host, AttachInterface(run.step_id, run.instance_uuid, vif))


def _unplugged(_services: Services, run: Run[DetachFacts], reply: StepReply) -> Effect:
    return Completed(run.facts) if reply.error is None else Failed(Failure.of(reply))


def _remove_port(services: Services, run: Run[DetachFacts]) -> Effect:
    facts = run.facts
    server = read(services, run.instance_uuid, facts.host)
    vif = find_vif(server.info, facts.port_id)
    if vif is None:
        return Completed()
    return Completed(replace(facts, freed=ports.detach_port(services.network, server.owner, vif)))


def _detached(tx: Transaction, run: Run[DetachFacts], _power_state: PowerState | None) -> None:
    info = instance_networks.info_of(tx.connection, run.instance_uuid)
    left = tuple(vif for vif in info if vif.port_id != run.facts.port_id)
    if left != info:
        instance_networks.store_info(tx, run.instance_uuid, left)
        if run.facts.freed:
            allocation_changes.subtract(tx, run.instance_uuid, run.facts.freed)
        port_devices.drop(tx, run.instance_uuid, run.facts.port_id)


def _not_changed(_services: Services, run: Run[AttachFacts] | Run[DetachFacts]) -> Unwound:
    """Record the fault of a failed attach or detach, unless a delete interrupted it. The server keeps its state."""
    return Ended() if run.interrupted in DELETES else Ended(_record_fault)


def _record_fault(tx: Transaction, run: Run[AttachFacts] | Run[DetachFacts]) -> None:
    instances.record_fault(tx, run.instance_uuid, run.failure.as_fault())


_ATTACH_EVENT, _DETACH_EVENT = "compute_attach_interface", "compute_detach_interface"
ATTACH_INTERFACE: Workflow[AttachFacts] = Workflow(
    "attach-interface",
    AttachFacts,
    (
        Step(
            "claim",
            do=_claim,
            undo=_give_back,
            event=_ATTACH_EVENT,
            applies=_must_claim,
        ),
        Step("port", do=_make_port, undo=_remove_new_port, event=_ATTACH_EVENT, blocking=True, undo_blocks=True),
        Step("plug", do=sends(_plug), undo=sends(_take_out), event=_ATTACH_EVENT),
    ),
    TRANSITIONS["attach-interface"],
    settle=_attached,
    unwound=_not_changed,
    action="attach_interface",
    done="has a new interface",
)
DETACH_INTERFACE: Workflow[DetachFacts] = Workflow(
    "detach-interface",
    DetachFacts,
    (
        Step("unplug", do=_unplug, undo=_plug_again, on_reply=_unplugged, event=_DETACH_EVENT, repeats=True),
        one_way("port", _remove_port, event=_DETACH_EVENT, blocking=True),
    ),
    TRANSITIONS["detach-interface"],
    settle=_detached,
    unwound=_not_changed,
    action="detach_interface",
    done="has lost an interface",
    point_of_no_return="unplug",
)
