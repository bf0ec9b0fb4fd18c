# SPDX-License-Identifier: Apache-2.0
"""Workflow steps that change the ports of a server, and wait until the network service has plugged the ports.

::

    ports ──▶ spawn, finish, … ──▶ plugged ──▶ resume        only for servers with networks
      │                               │           └─ only if the driver has started the guest paused
      │                               └─ only if a port was not active after it was bound
      ├─ of a new server: create the ports, or bind the user's; undo: delete or release them
      └─ of a server that moves: bind the ports to the new host; undo: bind them to the former one

The ports of a server are found by its uuid in the network service, and not in the journal. So a step may be repeated
after a crash at any point, and its undo finds every port.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Protocol

from sqlalchemy.engine import Connection

from kilonova.conductor.workflow_engine.effects import AwaitEvents, Batched, Completed, Effect, Failed, Write
from kilonova.conductor.workflow_engine.run import Failure, HasHost, Interrupt, Run, ServerGoneError
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import one_way, sends
from kilonova.conductor.workflow_engine.workflow import NOTHING, Do, Step, complete_or_fail
from kilonova.db import (
    aggregates,
    host_devices,
    instance_networks,
    instances,
    network_events,
    provider_aggregates,
    workflows,
)
from kilonova.db.core.transaction import Transaction
from kilonova.errors import Conflict, Forbidden, InvalidRequest, KilonovaError, NotFound, PortBindingFailed
from kilonova.messaging.messages import FaultOf, StepReply, UnpauseGuest
from kilonova.model.instance import GuestSpec, Instance, PowerState
from kilonova.model.network_event import COMPLETED, NetworkEvent, NetworkEventName
from kilonova.model.network_info import NetworkInfo
from kilonova.model.network_request import NetworkRequest
from kilonova.model.port_profiles import NO_PROFILES, PortProfiles, needs_devices, with_devices
from kilonova.model.request_spec import RequestedNetwork, RequestSpec
from kilonova.network import ports
from kilonova.network.host_demands import Lookups, demands_of_server
from kilonova.network.port_owner import PortOwner
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
_CODES: Mapping[type[KilonovaError], int] = {InvalidRequest: 400, Forbidden: 403, NotFound: 404, Conflict: 409}
#: Errors of the network service that are caused by the request, so that no other host would help.
FAULTS_OF_REQUESTS = tuple(_CODES)
NOT_ALLOCATED = "Failed to allocate the network(s), not rescheduling."


@dataclass(frozen=True, slots=True)
class PlugWait:
    """Wait for ports that were not active after they were bound.

    ``ports``: their ids. ``since``: start of the binding; earlier events are about an earlier binding. ``until``: end
    of the wait; None until the guest exists. Times are those of the database's clock.
    """

    ports: tuple[str, ...]
    since: datetime
    until: datetime | None = None


class Plugging(HasHost, Protocol):
    """Facts of a workflow that creates a guest.

    ``networks``: the server may have interfaces. ``held``: the driver has started the guest paused.
    """

    @property
    def networks(self) -> bool: ...

    @property
    def plugging(self) -> PlugWait | None: ...

    @property
    def held(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Networked:
    """A server in the network service: its requested networks, cached interfaces, and owner of ports."""

    request: NetworkRequest
    info: NetworkInfo
    owner: PortOwner

    @property
    def of_user(self) -> frozenset[str]:
        """Ids of the ports that existed before the server; they are released, never deleted."""
        return self.request.user_ports | {vif.port_id for vif in self.info if not vif.created}


def read(services: Services, instance_uuid: str, host: str | None) -> Networked:
    """Return a server with its networks. ``host``: as for :func:`owner_of`. Raises: ServerGoneError."""
    with services.database.read() as connection:
        try:
            instance = instances.get_bare(connection, instance_uuid)
        except NotFound as error:
            raise ServerGoneError(instance_uuid) from error
        request = instance_networks.request_of(connection, instance_uuid)
        info = instance_networks.info_of(connection, instance_uuid)
        return Networked(request, info, owner_of(services, connection, instance, host))


def owner_of(services: Services, connection: Connection, instance: Instance, host: str | None) -> PortOwner:
    """Return a server as the owner of its ports.

    ``host``: the host whose availability zone is written to the ports; None for the zone of the server.
    """
    zone = instance.availability_zone if host is None else aggregates.zone_of_host(connection, host)
    return owner_in(services, instance, zone)


def owner_in(services: Services, instance: Instance, zone: str | None) -> PortOwner:
    """Return a server as the owner of its ports. ``zone``: its availability zone; None for the default zone."""
    return PortOwner(
        instance_uuid=instance.uuid,
        project_id=instance.project_id,
        zone=zone or services.config_drives.default_zone,
        hostname=instance.hostname,
    )


def demands(services: Services, info: NetworkInfo, spec: RequestSpec) -> tuple[RequestedNetwork, ...]:
    """Return what the interfaces of an existing server now require of its next host. ``spec``: the server's request."""
    if not info:
        return ()
    may_have_cells = bool(spec.flavor.extra_specs) or (spec.image is not None and bool(spec.image.properties))

    def aggregates_of(segments: Collection[str]) -> Mapping[str, frozenset[str]]:
        with services.database.read() as connection:
            return provider_aggregates.of_providers(connection, segments)

    lookups = Lookups(may_have_cells, aggregates_of if services.routed_networks else None)
    return demands_of_server(services.network, info, lookups)


def given_to_ports(services: Services, run: Run[Any], profiles: PortProfiles) -> PortProfiles:
    """Return what the claimed host gives to the ports of a server, with their PCI devices."""
    if not needs_devices(profiles):
        return profiles
    with services.database.read() as connection:
        return with_devices(profiles, host_devices.of_ports(connection, run.instance_uuid))


def store(run: Run[Any], info: NetworkInfo) -> Write:
    """Return the write that replaces a server's cached interfaces."""
    return Batched(_store, (run.instance_uuid, info))


def _store(tx: Transaction, infos: Sequence[tuple[str, NetworkInfo]]) -> None:
    instance_networks.store_infos(tx, dict(infos))


# --- ports ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Bound:
    """Ports that were bound to a host. ``info``: the interfaces; ``facts``: the facts of the workflow afterwards."""

    info: NetworkInfo
    facts: Any

    def completed(self, run: Run[Any], memo: Any = None) -> Completed[Any]:
        """Return the effect of the step. ``memo``: as in :class:`Completed`."""
        return Completed(self.facts, store(run, self.info), memo=memo)


def bind(services: Services, run: Run[Any], change: Callable[[], NetworkInfo], *, waits: bool = True) -> Bound | Failed:
    """Bind ports to the host in the workflow's facts. ``change``: binds the ports and returns the interfaces.

    ``waits``: whether a later step waits until the ports are plugged. Raises: Unavailable, so that the step is retried.
    """
    since = services.database.clock.now()
    try:
        info = change()
    except PortBindingFailed as error:
        return Failed(Failure(error.message, host=run.facts.host))
    except FAULTS_OF_REQUESTS as error:
        return Failed(refusal(error, run.facts.host))
    inactive = tuple(vif.port_id for vif in info if not vif.active)
    wait = PlugWait(inactive, since) if waits and inactive and services.vif_plugging_timeout_s > 0 else None
    return Bound(info, replace(run.facts, plugging=wait))


def rebind(
    services: Services,
    run: Run[Any],
    host: str,
    profiles: PortProfiles,
    *,
    before: PortProfiles = NO_PROFILES,
    starts: bool = True,
) -> Effect:
    """Bind the ports of a server to another host. ``profiles``: what this host gives to the ports.

    ``before``: what the former host has given. ``starts``: the guest will run there, so its ports are plugged.
    """
    server = read(services, run.instance_uuid, host)

    def change() -> NetworkInfo:
        return ports.rebind(services.network, server.owner, server.info, host, profiles=profiles, before=before)

    bound = bind(services, run, change, waits=starts)
    return bound if isinstance(bound, Failed) else bound.completed(run)


def rebind_anyway(
    services: Services, run: Run[Any], host: str, profiles: PortProfiles, *, starts: bool = False
) -> Effect:
    """Bind the ports of a server to a host; complete the step even if the network service cannot bind them.

    This is for steps that must not fail. Nothing is done if a delete has interrupted the workflow, since the delete
    removes the ports. ``profiles``, ``starts``: as for :func:`rebind`.
    """
    if run.interrupt is Interrupt.DELETE:
        return Completed(durable=False)
    effect = rebind(services, run, host, profiles, starts=starts)
    if isinstance(effect, Failed):  # the refusal may be due to a concurrent change of a port, so try once more
        effect = rebind(services, run, host, profiles, starts=starts)
    if not isinstance(effect, Failed):
        return effect
    LOG.warning("Server %s: ports are not bound to host %s: %s", run.instance_uuid, host, effect.failure.message)
    server = read(services, run.instance_uuid, host)
    return Completed(write=store(run, ports.refresh(services.network, server.owner, server.info)))


def unbind(services: Services, run: Run[Any]) -> Effect:
    """Disconnect the ports of a server from its former host; do nothing if the workflow was interrupted."""
    if run.interrupted is not None:
        return Completed(durable=False)
    server = read(services, run.instance_uuid, None)
    return Completed(write=store(run, ports.unbind(services.network, server.owner, server.info)))


def unbind_again(services: Services, run: Run[Any]) -> Effect:
    """Undo hook: disconnect the ports of a server that is again without a host, unless a delete will remove them."""
    if run.interrupt is Interrupt.DELETE:
        return Completed(durable=False)
    server = read(services, run.instance_uuid, None)
    info = ports.unbind(services.network, server.owner, server.info)
    return Completed(replace(run.facts, plugging=None), store(run, info))


def refusal(error: KilonovaError, host: str | None) -> Failure:
    """Return the failure of a server whose ports the network service refuses. ``error``: one of FAULTS_OF_REQUESTS."""
    code = next(code for kind, code in _CODES.items() if isinstance(error, kind))
    details = f"{NOT_ALLOCATED}\n{error.message}"
    return Failure(error.message, details, host, FaultOf.REQUEST, everywhere=True, code=code)


def remove_ports(services: Services, run: Run[Any]) -> Effect:
    """Delete the ports that were made for a server, and release those of the user. Ports that are gone are no error."""
    server = read(services, run.instance_uuid, None)
    if not server.request.networks and not server.info:
        return Completed(durable=False)  # an attach that ran when this workflow began has added no interface
    ports.delete_ports(services.network, server.owner, server.of_user)
    facts = replace(run.facts, plugging=None) if hasattr(run.facts, "plugging") else None
    return Completed(facts, _forget)


def _forget(tx: Transaction, run: Run[Any]) -> None:
    instance_networks.store_info(tx, run.instance_uuid, ())
    network_events.forget(tx, run.instance_uuid)


def has_networks(facts: Plugging) -> bool:
    """Return True if the server of a workflow may have interfaces."""
    return facts.networks


def ports_step(
    do: Do[Any], undo: Do[Any] = NOTHING, *, event: str, applies: Callable[[Any], bool] = has_networks, **more: Any
) -> Step[Any]:
    """Return a step that changes the ports of a server; the workflow of a server without networks skips the step."""
    return Step("ports", do, undo, event=event, applies=applies, blocking=True, undo_blocks=undo is not NOTHING, **more)


# --- waiting for plugged ports ----------------------------------------------------------------------------------------


def guest_made(services: Services, run: Run[Any], reply: StepReply) -> Effect:
    """Reply handler of an order that creates a guest: start the time limit of the wait for the guest's ports."""
    effect, wait = complete_or_fail(services, run, reply), run.facts.plugging
    if wait is None or not isinstance(effect, Completed):
        return effect
    until = services.database.clock.now() + timedelta(seconds=services.vif_plugging_timeout_s)
    held = reply.power_state is PowerState.PAUSED
    return replace(effect, facts=replace(run.facts, plugging=replace(wait, until=until), held=held))


def held(guest: GuestSpec, facts: Plugging) -> GuestSpec:
    """Return ``guest``. If a port is not plugged yet, the result lets the driver start the guest paused."""
    return replace(guest, starts_paused=True) if facts.plugging is not None else guest


def plugged_step(event: str, *, may_fail: bool = True) -> Step[Any]:
    """Return the step that waits until the ports of a guest are plugged.

    ``may_fail``: whether the workflow can still roll back if a port is not plugged in time. If not, or if
    ``vif_plugging_is_fatal`` is off, the workflow continues without the port.
    """

    def wait(services: Services, run: Run[Any]) -> Effect:
        return _await_plugged(services, run, is_fatal=may_fail and services.vif_plugging_is_fatal)

    return Step("plugged", wait, NOTHING, event=event, applies=_waits, blocking=True)


def resume_step(event: str, *, at: Callable[[Any], str | None] = attrgetter("host")) -> Step[Any]:
    """Return the step that resumes a guest that its driver has started paused. ``at``: facts → the guest's host."""
    return replace(one_way("resume", sends(UnpauseGuest, at), event=event), applies=_is_held)


def _waits(facts: Plugging) -> bool:
    return facts.plugging is not None


def _is_held(facts: Plugging) -> bool:
    return facts.held


def _await_plugged(services: Services, run: Run[Any], *, is_fatal: bool) -> Effect:
    """Wait for the events of all awaited ports, then mark the ports as active.

    An event may be lost, so the ports are looked up before the wait counts as failed. A process that has taken
    the workflow over also looks them up at once, since events are lost while no process can receive them.
    """
    wait: PlugWait = run.facts.plugging
    with services.database.read() as connection:
        stored = network_events.of_server(connection, run.instance_uuid)
    heard = {
        each.event.tag: each.event.status
        for each in stored
        if each.event.name is NetworkEventName.VIF_PLUGGED and each.received_at >= wait.since
    }
    failed = [port for port in wait.ports if heard.get(port, COMPLETED) != COMPLETED]
    if run.interrupted is not None or (not failed and all(port in heard for port in wait.ports)):
        return Completed(write=_note_plugged(services, run, frozenset(heard)))
    until = None if failed or wait.until is None or services.database.clock.now() >= wait.until else wait.until
    if until is not None and not run.taken_over:
        return AwaitEvents(until)
    server = read(services, run.instance_uuid, run.facts.host)
    info = ports.refresh(services.network, server.owner, server.info)
    inactive = [vif.port_id for vif in info if vif.port_id in wait.ports and not vif.active]
    if inactive and until is not None:
        _store_lost_events(services, run, [port for port in wait.ports if port not in {*inactive, *heard}])
        return AwaitEvents(until)
    if inactive and is_fatal:
        why = f"Not plugged after {services.vif_plugging_timeout_s:g} s: {', '.join(inactive)}."
        return Failed(Failure(NOT_ALLOCATED, f"{NOT_ALLOCATED}\n{why}", run.facts.host, everywhere=True))
    if inactive:
        LOG.warning("Server %s continues although ports are not plugged: %s", run.instance_uuid, ", ".join(inactive))
    return Completed(write=store(run, info))


def _store_lost_events(services: Services, run: Run[Any], plugged: Sequence[str]) -> None:
    """Store the events of ports that are plugged, but whose events were lost; later checks of the wait find them."""
    events = [NetworkEvent(NetworkEventName.VIF_PLUGGED, run.instance_uuid, port, COMPLETED) for port in plugged]

    def store(tx: Transaction) -> None:
        present = workflows.get(tx.connection, run.row.uuid, services.owner)
        if present is not None and present.version == run.row.version:
            network_events.store(tx, events)

    if events:
        services.database.write(store)


def _note_plugged(services: Services, run: Run[Any], plugged: frozenset[str]) -> Write:
    """Return the write that marks ports as active in the cache, and deletes the events."""
    info = read(services, run.instance_uuid, None).info
    active = tuple(replace(vif, active=vif.active or vif.port_id in plugged) for vif in info)

    def write(tx: Transaction, run: Run[Any]) -> None:
        instance_networks.store_info(tx, run.instance_uuid, active)
        network_events.forget(tx, run.instance_uuid)

    return write
