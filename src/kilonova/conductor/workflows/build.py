# SPDX-License-Identifier: Apache-2.0
"""Build: claim a host and spawn the guest on it. If the spawn fails, clean up and try the next best host.

::

    claim ──▶ ports ──▶ spawn ──▶ plugged ──▶ resume ──ok──▶ done (active)
      ▲                   │ failed
      │                   ▼
      └── undo: destroy the remains, remove the ports, release the claim  (no host or attempts left: error with a fault)

A server without networks has the steps claim and spawn only (``network_steps.py``).
"""

import logging
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from kilonova.claims.placing import Chosen
from kilonova.conductor.workflow_engine.effects import (
    Batched,
    ClaimHost,
    Completed,
    Effect,
    Ended,
    Failed,
    Gone,
    Restarted,
    SendToAgent,
    Unwound,
)
from kilonova.conductor.workflow_engine.placing_errors import refusals
from kilonova.conductor.workflow_engine.run import Failure, Interrupt, Run, is_unreachable
from kilonova.conductor.workflow_engine.services import Services
from kilonova.conductor.workflow_engine.step_kinds import sends
from kilonova.conductor.workflow_engine.workflow import SettleTogether, Step, Workflow
from kilonova.conductor.workflows import network_steps
from kilonova.conductor.workflows.endings import leave_behind
from kilonova.conductor.workflows.guest_description import new_guest
from kilonova.conductor.workflows.network_steps import PlugWait
from kilonova.conductor.workflows.release import release_claim
from kilonova.db import compute_nodes, instance_networks, instances, request_specs
from kilonova.db.core.transaction import Transaction
from kilonova.db.instances import Activation
from kilonova.messaging.messages import DestroyGuest, FaultOf, SpawnGuest, StepReply
from kilonova.model.instance import Fault, Instance, TaskState
from kilonova.model.network_info import NetworkInfo
from kilonova.model.network_request import NO_NETWORKS, NetworkRequest
from kilonova.model.port_profiles import PortProfiles, profiles_on
from kilonova.model.request_spec import StoredRequest
from kilonova.model.transitions import TRANSITIONS
from kilonova.network import ports
from kilonova.records import dataclass, replace

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class BuildFacts:
    """Facts of a build.

    ``host``, ``node``: the claimed service host and hypervisor; ``provider``: the resource provider of that hypervisor.

    ``tried``: (host, node) pairs that failed. ``last_error``: error of the last failed host.
    ``unreachable``: the host was unreachable when it had to remove the guest.
    ``networks``: the server has networks. ``plugging``, ``held``: as in ``network_steps.py``.
    ``profiles``: what the host gives to the ports.
    """

    host: str | None = None
    node: str | None = None
    provider: str | None = None
    tried: tuple[tuple[str, str], ...] = ()
    last_error: str = ""
    unreachable: bool = False
    networks: bool = False
    plugging: PlugWait | None = None
    held: bool = False
    profiles: PortProfiles = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BuildMemo:
    """In-memory cache of a build: its server and the stored request.

    ``networks``: the requested networks. ``vifs``: the interfaces, after the ports were made; None before.
    """

    instance: Instance
    request: StoredRequest
    networks: NetworkRequest
    vifs: NetworkInfo | None = None


# --- claim ------------------------------------------------------------------------------------------------------------


def _claim(services: Services, run: Run[BuildFacts]) -> Effect:
    """Return the effect that claims a host for the server of a build; ``Gone`` if the server was deleted."""
    memo = memos(services, [run]).get(run.row.uuid)
    return Gone() if memo is None else claim_of(run, memo)


def claim_of(run: Run[BuildFacts], memo: BuildMemo) -> ClaimHost[BuildFacts]:
    """Return the effect that claims a host for a new server. Hosts where the build has failed are excluded."""
    spec, tried = memo.request.spec, run.facts.tried
    if tried:
        spec = replace(spec, tried=tuple(dict.fromkeys(tried)))

    def at_host(chosen: Chosen) -> BuildFacts:
        here = replace(run.facts, host=chosen.host, node=chosen.node, provider=chosen.provider_uuid)
        return replace(here, unreachable=False, profiles=profiles_on(spec.networks, chosen.providers))

    return ClaimHost(spec, memo.request.group_uuid, at_host, memo=memo)


def require_room(services: Services, request: StoredRequest, count: int, one_of_them: str) -> None:
    """Raise CannotPlaceError unless the hosts now have room for ``count`` servers of a request."""
    with refusals(request.spec.request_id):
        services.claimer.require_room(request.spec, request.group_uuid, count, one_of_them)


def _release(services: Services, run: Run[BuildFacts]) -> Effect:
    """Release the claim, if there is one. Also record that the host must remove the guest, if the host is unreachable.

    If the host has returned meanwhile, the record is refused with HostIsBackError.
    """
    facts = run.facts
    if facts.host is None:
        return Completed(durable=False)
    host = facts.host
    failure = run.failure

    def release(tx: Transaction, run: Run[BuildFacts]) -> None:
        if facts.unreachable:
            leave_behind(services, tx, host, run.instance_uuid)
        release_claim(tx, run.instance_uuid, instances.group_of(tx.connection, run.instance_uuid), host)
        values: dict[str, Any] = {"host": None, "node": None}
        shown = instances.task_of(tx.connection, run.instance_uuid)
        # If the server has no task state, its state was reset during the build. Then the build ends without
        # setting a task state.
        if run.interrupted is None and shown is not None:
            values["task_state"] = TaskState.SCHEDULING
        expected = {None, *TRANSITIONS["build"].shown} if run.interrupted is None else None
        instances.change(tx, run.instance_uuid, expected_tasks=expected, **values)
        is_of_host = run.interrupted in {None, Interrupt.TIMEOUT} and failure.fault_of is not FaultOf.REQUEST
        if is_of_host and services.counts_failed_builds and facts.provider is not None:
            compute_nodes.count_failed_build(tx, facts.provider)

    tried = (*facts.tried, (host, facts.node or ""))
    begun_again = BuildFacts(
        tried=tried, last_error=failure.message, unreachable=facts.unreachable, networks=facts.networks
    )
    return Completed(begun_again, release)


# --- ports ------------------------------------------------------------------------------------------------------------


def _make_ports(services: Services, run: Run[BuildFacts]) -> Effect:
    """Create the ports of a new server, or use the user's, and bind them to the server's host."""
    memo = memos(services, [run]).get(run.row.uuid)
    host = run.facts.host
    if memo is None or host is None:
        return Gone()
    owner, request = network_steps.owner_in(services, memo.instance, services.claimer.zone_of(host)), memo.networks
    # A port may exist already: a request for an earlier host that timed out may have been carried out after the undo
    # had removed that host's ports.
    repeated = run.repeated or bool(run.facts.tried)
    profiles = network_steps.given_to_ports(services, run, run.facts.profiles)
    made = network_steps.bind(
        services,
        run,
        lambda: ports.create_ports(services.network, owner, request, host, repeated=repeated, profiles=profiles),
    )
    return made if isinstance(made, Failed) else made.completed(run, replace(memo, vifs=made.info))


# --- spawn ------------------------------------------------------------------------------------------------------------


def _spawn(services: Services, run: Run[BuildFacts]) -> Effect:
    memo = memos(services, [run]).get(run.row.uuid)
    if memo is None:
        return Gone()
    host = run.facts.host
    assert host is not None
    vifs = memo.vifs if run.facts.networks else ()
    guest = new_guest(services, host, memo.instance, memo.request, run.row.since, vifs=vifs)
    return SendToAgent(host, SpawnGuest(run.step_id, network_steps.held(guest, run.facts)))


def _remains_destroyed(_services: Services, run: Run[BuildFacts], reply: StepReply) -> Effect:
    """Complete the undo of the spawn even on an error. For an unreachable host, a removal record is written later."""
    if reply.error is not None:
        LOG.warning("Guest of server %s is left on host %s: %s", run.instance_uuid, reply.host, reply.error)
    return Completed(replace(run.facts, unreachable=is_unreachable(reply)), durable=False)


# --- end of the workflow ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Built:
    """An activated server, and the resource provider whose count of failed builds is reset."""

    activation: Activation
    provider: str


def _activate(tx: Transaction, built: Sequence[_Built]) -> None:
    instances.activate(tx, [each.activation for each in built])
    compute_nodes.reset_failed_builds(tx, {each.provider for each in built})


def _settle(services: Services, run: Run[BuildFacts]) -> Batched[_Built]:
    memo: BuildMemo | None = run.memo
    if memo is None:
        with services.database.read() as connection:
            instance = instances.get(connection, run.instance_uuid)
    else:
        instance = memo.instance
    services.config_drives.passwords.forget(run.instance_uuid)
    facts = run.facts
    kind = instance.flavor.flavor_id, instance.image_properties
    activation = Activation(run.instance_uuid, facts.host or "", facts.node or "", *kind)
    return Batched(_activate, _Built(activation, facts.provider or ""))


@dataclass(frozen=True, slots=True)
class _Unbuilt:
    uuid: str
    fault: Fault


def _fail(tx: Transaction, unbuilt: Sequence[_Unbuilt]) -> None:
    faults = {each.uuid: each.fault for each in unbuilt}
    instances.fail(tx, faults, TRANSITIONS["build"].shown)


def fault_of(uuid: str, facts: BuildFacts, failure: Failure, max_attempts: int) -> Fault:
    """Return the fault of a server whose build is given up."""
    message = failure.message
    if failure.step == "claim":  # the build failed because the scheduler found no host
        shown = f"{message} (after a failed build: {facts.last_error})" if facts.last_error else message
    elif failure.everywhere or max_attempts == 1 or len(facts.tried) < max_attempts:
        shown = message
    else:
        shown = (
            f"Exceeded maximum number of retries. Exceeded max scheduling attempts {max_attempts} for instance {uuid}. "
            f"Last error: {message}"
        )
    hosts = ", ".join(host for host, _ in facts.tried) or "none"
    return Fault(500, shown, f"{failure.details or shown}\nHosts tried: {hosts}")


def _unwound(services: Services, run: Run[BuildFacts]) -> Unwound:
    """Restart the build on the next best host, if attempts are left.

    The build is not restarted if an unreachable host may have received the order to spawn the guest, since the server
    might then run on two hosts.
    """
    if run.interrupted is not None:
        return Ended()
    failure, facts = run.failure, run.facts
    may_be_there = facts.unreachable and failure.unreachable and not failure.undone
    helps = failure.step != "claim" and not failure.everywhere
    if helps and len(facts.tried) < services.max_attempts and not may_be_there:
        memo = memos(services, [run]).get(run.row.uuid)
        spec = None if memo is None else memo.request.spec
        if spec is not None and spec.force_host is None and spec.force_node is None:
            return Restarted(facts)
    services.config_drives.passwords.forget(run.instance_uuid)
    fault = fault_of(run.instance_uuid, facts, failure, services.max_attempts)
    return Ended(Batched(_fail, _Unbuilt(run.instance_uuid, fault)))


# --- helpers ----------------------------------------------------------------------------------------------------------


def memos(services: Services, runs: Sequence[Run[BuildFacts]]) -> dict[str, BuildMemo]:
    """Return workflow uuid → memo. Missing memos are read from the database; deleted servers are left out."""
    found = {run.row.uuid: run.memo for run in runs if run.memo is not None}
    missing = [run for run in runs if run.memo is None]
    if missing:
        with services.database.read() as connection:
            there = instances.get_many(connection, [run.instance_uuid for run in missing])
            present = {instance.uuid: instance for instance in there}
            requests = request_specs.get_many(connection, present.values())
            for run in missing:
                uuid = run.instance_uuid
                if uuid in requests:
                    networks = instance_networks.request_of(connection, uuid) if run.facts.networks else NO_NETWORKS
                    found[run.row.uuid] = BuildMemo(present[uuid], requests[uuid], networks)
    return found


_EVENT = "compute__do_build_and_run_instance"
BUILD = Workflow(
    "build",
    BuildFacts,
    (
        Step("claim", do=_claim, undo=_release),
        network_steps.ports_step(_make_ports, network_steps.remove_ports, event=_EVENT, shows=TaskState.NETWORKING),
        Step(
            "spawn",
            do=_spawn,
            undo=sends(DestroyGuest),
            on_reply=network_steps.guest_made,
            on_undone=_remains_destroyed,
            shows=TaskState.SPAWNING,
            event=_EVENT,
        ),
        network_steps.plugged_step(_EVENT),
        network_steps.resume_step(_EVENT),
    ),
    TRANSITIONS["build"],
    settle=SettleTogether(_settle),
    unwound=_unwound,
    action="create",
    done="spawned",
    overtaken_by=frozenset({Interrupt.DELETE, Interrupt.TIMEOUT}),
)
