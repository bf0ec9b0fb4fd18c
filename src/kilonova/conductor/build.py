# SPDX-License-Identifier: Apache-2.0
"""Build: claim a host, spawn the guest there; when the spawn fails, clean up and go to the next best host.

::

    claim ──▶ spawn ──ok──▶ done (active)
      ▲         │ failed
      │         ▼
      └── undo spawn: destroy what is left, release the claim     (no host or attempts left: error, with a fault)
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kilonova.claims.claimer import Job, Order
from kilonova.claims.placing import Chosen
from kilonova.conductor import story
from kilonova.conductor.actions import release_claim, require_absent
from kilonova.conductor.steps import TAKEN_OVER, HostIsBackError, Step, is_unreachable, step_id, steps
from kilonova.db import compute_nodes, group_guards, host_devices, instances, workflows
from kilonova.db.transaction import Transaction
from kilonova.db.workflows import Workflow
from kilonova.errors import KilonovaError, Unavailable
from kilonova.identifiers import new_uuid
from kilonova.messaging.messages import DestroyGuest, FaultOf, SpawnGuest, StepReply
from kilonova.model.guest_devices import GuestDevices
from kilonova.model.instance import Fault, GuestSpec, Instance, TaskState, VmState
from kilonova.model.request_spec import StoredRequest

if TYPE_CHECKING:
    from kilonova.conductor.service import Conductor

LOG = logging.getLogger(__name__)
KIND = "build"


@dataclass(eq=False)
class CannotPlaceError(Exception):
    """There is no host for some server of a request. ``details`` are for administrators."""

    message: str
    details: str = ""


def new_workflow(instance: Instance, request_id: str) -> Workflow:
    """Return the workflow that builds an instance."""
    return Workflow(new_uuid(), KIND, instance.uuid, instance.reservation_id, request_id, "claim")


def store(
    tx: Transaction, built: Sequence[Instance], flows: Sequence[Workflow], group_uuid: str | None, owner: str
) -> None:
    """Store instances of one request with their workflows, as members of their group."""
    instances.insert(tx, [(instance, group_uuid) for instance in built])
    if group_uuid is not None:
        group_guards.add_members(tx, group_uuid, [instance.uuid for instance in built])
    workflows.insert(tx, flows, owner)


def claim_together(conductor: "Conductor", flows: Sequence[Workflow]) -> tuple[Workflow, ...]:
    """Claim hosts for the instances of one request, all or none, and return their workflows at the next step."""
    jobs = conductor.build_jobs(flows)
    flows = [flow for flow in flows if flow.uuid in jobs]
    if not flows:
        return ()
    request = jobs[flows[0].uuid][1]
    try:
        return claim(conductor, flows, request)
    except CannotPlaceError as error:
        refused = error
    group = request.group_uuid
    for flow in conductor.database.write(lambda tx: fail(tx, flows, conductor.owner, refused, group)):
        story.failed(flow, refused.message)
    for flow in flows:
        conductor.forget(flow)
    return ()


def require_room(conductor: "Conductor", request: StoredRequest, count: int, one_of_them: Workflow) -> None:
    """Raise CannotPlaceError unless there is room for ``count`` servers of a request now."""
    with _refusals(request.spec.request_id):
        conductor.claimer.require_room(request.spec, request.group_uuid, count, one_of_them.instance_uuid)


def claim(conductor: "Conductor", flows: Sequence[Workflow], request: StoredRequest) -> tuple[Workflow, ...]:
    """Claim hosts for instances of one request and return their workflows at the next step.

    Raises: CannotPlaceError; then none of them is to be built, also if it has a host already.
    """
    tried = {(host, node): None for flow in flows for host, node in flow.body.get("tried", ())}
    spec = replace(request.spec, instance_uuids=tuple(flow.instance_uuid for flow in flows), tried=tuple(tried))
    jobs = tuple(Job(flow.instance_uuid, partial(at_spawn, flow)) for flow in flows)
    with _refusals(spec.request_id):
        placed = conductor.claimer.place(Order(spec, jobs, request.group_uuid))
    for flow in flows:
        if flow.instance_uuid in placed.gone:
            conductor.forget(flow)  # and nothing else of the instance: a delete is under way
    for flow in placed.workflows:
        story.placed(flow)
    return placed.workflows


def at_spawn(flow: Workflow, chosen: Chosen) -> Workflow:
    """Return the workflow of a build whose claim of a host is durable."""
    place = {"host": chosen.host, "node": chosen.node, "provider": chosen.provider_uuid}
    return replace(flow, step="spawn", attempt=flow.attempt + 1, body={**flow.body, **place})


@contextmanager
def _refusals(request_id: str) -> Iterator[None]:
    """Turn what the scheduler raises into CannotPlaceError, but for a database that is away: that is tried again."""
    try:
        yield
    except Unavailable:
        raise
    except KilonovaError as error:
        raise CannotPlaceError(error.message) from error
    except Exception as error:
        LOG.exception("Scheduling failed [%s]", request_id)
        raise CannotPlaceError("Scheduling failed.", f"{type(error).__name__}: {error}") from error


def spawn_guest(conductor: "Conductor", flow: Workflow) -> Workflow | None:
    """Send the guest to its host."""
    job = conductor.build_jobs([flow]).get(flow.uuid)
    if job is None:
        return None
    instance, request = job
    message = SpawnGuest(step_id(flow), guest_of(instance, request, reserved_for(conductor, instance, request)))
    return conductor.send(flow, message)


def guest_spawned(conductor: "Conductor", flow: Workflow, reply: StepReply) -> Workflow | None:
    """The guest runs, or the host failed it."""
    if reply.error is not None:
        return conductor.turn_back(flow, reply)
    try:
        conductor.database.write_merged(conductor.activate, flow)
    except TAKEN_OVER as error:
        LOG.info("Instance %s is no longer being built: %s", flow.instance_uuid, error)
        conductor.destroy_stray(reply)
    else:
        story.done(flow, "spawned")
    conductor.forget(flow)
    return None


def destroy_remains(conductor: "Conductor", flow: Workflow) -> Workflow | None:
    """Clean the host that failed."""
    message = DestroyGuest(step_id(flow), flow.instance_uuid)
    return conductor.send(flow, message)


def remains_destroyed(conductor: "Conductor", flow: Workflow, reply: StepReply) -> Workflow | None:
    """Release the claim, then claim the next host or give up.

    A host that does not answer counts as clean: it destroys guests that no server owns when it comes back.
    """
    if reply.error is not None:
        LOG.warning("Instance %s left on host %s: %s", flow.instance_uuid, reply.host, reply.error)
    job = conductor.build_jobs([flow]).get(flow.uuid)
    if job is None:
        return None
    request = job[1]
    spec = request.spec
    host = flow.body["host"]
    tried = [*flow.body.get("tried", ()), (host, flow.body["node"])]
    error = flow.body.get("error", "")
    attempts = conductor.max_attempts
    may_retry = len(tried) < attempts and spec.force_host is None and spec.force_node is None
    again = replace(flow, step="claim", attempt=flow.attempt + 1, body={"tried": tried, "last_error": error})

    def release(tx: Transaction) -> None:
        if is_unreachable(reply):
            require_absent(tx, host)
        if may_retry:
            workflows.move(tx, again, conductor.owner)
        else:
            workflows.finish(tx, flow, conductor.owner)
        release_claim(tx, flow.instance_uuid, request.group_uuid, host)
        values: dict[str, Any] = {"host": None, "node": None, "task_state": TaskState.SCHEDULING}
        if not may_retry:
            values |= {"vm_state": VmState.ERROR, "task_state": None}
            message = error if attempts == 1 or spec.force_host else _too_many(flow.instance_uuid, attempts, error)
            more = flow.body.get("details") or error
            instances.record_fault(tx, flow.instance_uuid, Fault(500, message, _details(tried, more)))
        instances.change(tx, flow.instance_uuid, expected_tasks={TaskState.SPAWNING}, **values)
        if flow.body.get("fault_of") != FaultOf.REQUEST:
            compute_nodes.count_failed_build(tx, flow.body["provider"])

    try:
        conductor.database.write(release)
    except HostIsBackError:
        return conductor.send_again(flow)
    except TAKEN_OVER:
        conductor.forget(flow)
        return None
    if may_retry:
        story.tries_again(flow, error)
        return again
    story.failed(flow, error, host=host)
    conductor.forget(flow)
    return None


def reserved_for(conductor: "Conductor", instance: Instance, request: StoredRequest) -> GuestDevices:
    """Return the cells and devices that the claim has taken for an instance; only flavor and image can ask for any."""
    image = request.spec.image
    if not instance.flavor.extra_specs and not (image and image.properties):
        return GuestDevices()
    with conductor.database.read() as connection:
        return host_devices.of_guest(connection, instance.uuid)


def guest_of(instance: Instance, request: StoredRequest, reserved: GuestDevices) -> GuestSpec:
    """Return what a hypervisor needs to make the guest of an instance."""
    flavor, image = instance.flavor, request.spec.image
    return GuestSpec(
        uuid=instance.uuid,
        name=instance.instance_name,
        hostname=instance.hostname,
        vcpus=flavor.vcpus,
        memory_mib=flavor.memory_mib,
        root_gib=flavor.root_gib,
        ephemeral_gib=flavor.ephemeral_gib,
        swap_mib=flavor.swap_mib,
        image_ref=instance.image_ref,
        image_properties=dict(image.properties) if image else {},
        extra_specs=dict(flavor.extra_specs),
        project_id=instance.project_id,
        user_id=instance.user_id,
        key_name=instance.key_name,
        user_data=request.user_data,
        metadata=dict(instance.metadata),
        reserved=reserved,
    )


def fail(
    tx: Transaction, flows: Sequence[Workflow], owner: str, refused: CannotPlaceError, group_uuid: str | None
) -> Sequence[Workflow]:
    """Put instances of one request in error, release what they hold, and return the workflows that end so.

    Those that somebody else took over are left alone.
    """
    present = workflows.finish_present(tx, flows, owner)
    for flow in present:
        if flow.step == "spawn":
            release_claim(tx, flow.instance_uuid, group_uuid, flow.body["host"])
    faults = {}
    for flow in present:
        shown = _exhausted(flow, refused.message)
        details = _details(flow.body.get("tried", []), refused.details or shown)
        faults[flow.instance_uuid] = Fault(500, shown, details)
    instances.fail(tx, faults, {TaskState.SCHEDULING, TaskState.SPAWNING})
    return present


def _exhausted(flow: Workflow, message: str) -> str:
    last = flow.body.get("last_error")
    return f"{message} (after a failed build: {last})" if last else message


def _too_many(uuid: str, attempts: int, error: str) -> str:
    return (
        f"Exceeded maximum number of retries. Exceeded max scheduling attempts {attempts} for instance {uuid}. "
        f"Last error: {error}"
    )


def _details(tried: Sequence[tuple[str, str]], error: str) -> str:
    return f"{error}\nHosts tried: {', '.join(host for host, _ in tried) or 'none'}"


def _claim_one(conductor: "Conductor", flow: Workflow) -> Workflow | None:
    if conductor.claimer.may_be_slow:
        conductor.claim_soon([flow])
        return None
    placed = claim_together(conductor, [flow])
    return placed[0] if placed else None


BUILD = steps(
    Step("claim", do=_claim_one),
    Step("spawn", do=spawn_guest, reply=guest_spawned, undo=destroy_remains, undone=remains_destroyed),
)
