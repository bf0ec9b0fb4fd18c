# SPDX-License-Identifier: Apache-2.0
"""Run workflows: journal, send, park, resume, adopt.

A workflow in this process is in ``_flows`` from its start (or adoption) to its end. Every write is fenced by the owner,
so a workflow that another process took over, or that a delete cancelled, ends here without a trace.
"""

import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from kilonova.claims.claimer import Claimer
from kilonova.conductor import batch, build, delete, power, story
from kilonova.conductor.host_registration import register_hosts
from kilonova.conductor.lease import Lease
from kilonova.conductor.steps import TAKEN_OVER, UNREACHABLE, Step, Steps, step_id
from kilonova.db import compute_nodes, group_guards, host_agents, instances, quotas, request_specs, services, workflows
from kilonova.db.database import Database
from kilonova.db.instances import Activation
from kilonova.db.transaction import Transaction, together
from kilonova.db.workflows import Workflow
from kilonova.errors import OverQuota, Unavailable
from kilonova.identifiers import new_uuid
from kilonova.messaging.local import LocalBus
from kilonova.messaging.messages import (
    AgentMessage,
    ConductorMessage,
    DestroyGuest,
    Heartbeat,
    HostsStarted,
    Orphans,
    StepId,
    StepReply,
)
from kilonova.model.instance import Instance, PowerState, TaskState
from kilonova.model.quota import NO_LIMITS, Limits, QuotaRequest
from kilonova.model.request_spec import RequestSpec, StoredRequest
from kilonova.model.transitions import TRANSITIONS

LOG = logging.getLogger(__name__)

KINDS: Mapping[str, Steps] = {
    batch.KIND: batch.BATCH,
    build.KIND: build.BUILD,
    delete.KIND: delete.DELETE,
    **power.POWER,
}

BuildJob = tuple[Instance, StoredRequest]


@dataclass(frozen=True, slots=True)
class NewServers:
    """What one request brings to be stored: its instances with a workflow each, at least ``at_least`` of them.

    ``limits``: the quotas in force where they are not in the database.
    """

    instances: tuple[Instance, ...]
    request: StoredRequest
    flows: tuple[Workflow, ...]
    at_least: int
    limits: Limits | None

    def quota(self) -> QuotaRequest:
        """Return what all of it would count."""
        return batch.quota_of(self.instances, self.request, self.at_least, self.limits)

    def only(self, count: int) -> "NewServers":
        """Return the first ``count`` servers of the request."""
        if count == len(self.instances):
            return self
        spec = replace(self.request.spec, instance_uuids=self.request.spec.instance_uuids[:count])
        request = replace(self.request, spec=spec)
        return replace(self, instances=self.instances[:count], request=request, flows=self.flows[:count])


class Conductor:
    """The workflows of one control process, named ``owner``.

    ``limits``: the configured quotas, which hold where nobody has set others.
    """

    def __init__(
        self,
        database: Database,
        claimer: Claimer,
        bus: LocalBus,
        owner: str,
        *,
        max_attempts: int,
        limits: Limits = NO_LIMITS,
        lease: Lease | None = None,
    ) -> None:
        self.database = database
        self.claimer = claimer
        self.owner = owner
        self.max_attempts = max_attempts
        self.limits = limits
        self.lease = lease or Lease(host_agents.LEASE)
        self._bus = bus
        self._lock = threading.Lock()
        self._store = together(self._store_together)
        self.activate = together(self._activate_together)
        self._flows: dict[str, Workflow] = {}
        #: Workflow → the attempt that waits for an agent. The first reply takes it, so that copies find nothing.
        self._awaited: dict[str, int] = {}
        self._jobs: dict[str, BuildJob] = {}
        #: Replies about guests that came while this process might not act; they are looked at when it may again.
        self._late: list[StepReply] = []
        #: Workflows whose step broke on something unforeseen; they are tried again.
        self._broken: set[str] = set()
        bus.serve_conductor(self.handle, self.greet)

    # --- what the API asks for ----------------------------------------------------------------------------------------

    def build(
        self,
        built: Sequence[Instance],
        spec: RequestSpec,
        group_uuid: str | None,
        user_data: str | None = None,
        *,
        at_least: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Store new instances with their request and start building them. Returns once they are durable.

        ``at_least``: how many have to be made where quotas do not allow all of them; None stands for all.
        ``limits``: the quotas in force where they are not in the database. Raises: OverQuota.
        """
        request = StoredRequest(new_uuid(), spec, group_uuid, user_data)
        built = [replace(instance, request_spec_uuid=request.uuid) for instance in built]
        if len(built) > self.claimer.piece:
            batch.store(self, built, request, at_least or len(built), limits)
            return
        flows = [build.new_workflow(instance, spec.request_id) for instance in built]
        new = NewServers(tuple(built), request, tuple(flows), at_least or len(built), limits)
        numbers = self.database.write_merged(self._store, new)
        stored = new.only(len(numbers))
        with self._lock:
            for flow, instance in zip(stored.flows, stored.instances, strict=True):
                self._flows[flow.uuid] = flow
                self._jobs[flow.uuid] = (replace(instance, id=numbers[instance.uuid]), stored.request)
        for flow in stored.flows:
            story.created(flow)
        self.claim_soon(stored.flows)

    def _store_together(
        self, tx: Transaction, asked: Sequence[NewServers]
    ) -> Sequence[Mapping[str, int] | BaseException]:
        """Store each request as far as quotas allow, and answer it with uuid → number, or with why not."""
        granted = quotas.take(tx, [new.quota() for new in asked], self.limits)
        requests = [new.only(count) for new, count in zip(asked, granted, strict=True) if isinstance(count, int)]
        if not requests:
            return [count for count in granted if isinstance(count, OverQuota)]
        request_specs.insert(tx, [new.request for new in requests])
        instances.insert(tx, [(instance, new.request.group_uuid) for new in requests for instance in new.instances])
        for new in requests:
            if new.request.group_uuid is not None:
                group_guards.add_members(tx, new.request.group_uuid, [instance.uuid for instance in new.instances])
        workflows.insert(tx, [flow for new in requests for flow in new.flows], self.owner)
        reservations = {instance.reservation_id for new in requests for instance in new.instances}
        numbers = instances.numbers(tx.connection, reservations)
        stored = iter(requests)
        return [
            count if isinstance(count, OverQuota) else {i.uuid: numbers[i.uuid] for i in next(stored).instances}
            for count in granted
        ]

    def delete(self, instance: Instance, request_id: str) -> None:
        """Start deleting an instance, whatever else is under way for it."""
        flow_uuid = new_uuid()

        def begin(tx: Transaction) -> Workflow | None:
            current = instances.find(tx.connection, instance.uuid)
            if current is None or current.task_state is TaskState.DELETING:
                return None
            workflows.cancel_for_instance(tx, instance.uuid)
            group = instances.group_of(tx.connection, instance.uuid)
            body = {"host": current.host, "node": current.node, "group": group}
            flow = Workflow(flow_uuid, delete.KIND, instance.uuid, "", request_id, "destroy", 0, body)
            workflows.insert(tx, [flow], self.owner)
            instances.change(tx, instance.uuid, task_state=TaskState.DELETING, progress=0)
            return flow

        flow = self.database.write(begin)
        if flow is not None:
            self.forget_instance(instance.uuid)
            self.begin(flow)

    def change_power(self, instance: Instance, kind: str, request_id: str) -> None:
        """Start a ``start``, ``stop``, ``reboot`` or ``hard-reboot``. Raises: NotFound, UnexpectedTaskState."""
        transition = TRANSITIONS[kind]
        body = {"host": instance.host, "node": instance.node}
        flow = Workflow(new_uuid(), kind, instance.uuid, "", request_id, "act", 0, body)

        def begin(tx: Transaction) -> None:
            workflows.cancel_for_instance(tx, instance.uuid)
            instances.change(
                tx,
                instance.uuid,
                expected_states=transition.states,
                expected_tasks=transition.tasks,
                task_state=transition.shown[0],
            )
            workflows.insert(tx, [flow], self.owner)

        self.database.write(begin)
        self.forget_instance(instance.uuid)
        self.begin(flow)

    # --- workflows of before and of others ----------------------------------------------------------------------------

    def resume(self) -> int:
        """Take over unfinished workflows that nobody runs, go on where they were, and return how many there are."""
        everything = self.database.is_sqlite

        def adopt(tx: Transaction) -> tuple[Workflow, ...]:
            return workflows.adopt(tx, self.owner, everything=everything)

        count = 0
        while adopted := self.database.write(adopt):
            self._go_on(adopted)
            count += len(adopted)
        return count

    @property
    def may_act(self) -> bool:
        """Whether nobody counts this process as dead, so that it may act for its hosts."""
        return self.database.is_sqlite or self.lease.is_held

    def sign_of_life(self) -> None:
        """Tell the other processes that this one is alive; notice when they counted it as dead meanwhile."""
        if self.database.is_sqlite:
            return
        since = self.lease.now()
        if self.database.write(lambda tx: host_agents.keep_alive(tx, self.owner, self.lease.duration)):
            self.lease.renew(since)
        else:
            self.lease.lapse()

    def enter(self, announce: Callable[[], None]) -> int:
        """Join the living, at the start or after a time in which others counted this process as dead.

        ``announce``: has the agents report their guests, and destroys what was moved or deleted meanwhile. Only then
        may this process act again: on what the journal says now, not on what it remembers. Returns how many workflows
        go on.
        """
        with self._lock:
            for remembered in (self._flows, self._jobs, self._awaited, self._broken):
                remembered.clear()
        announce()
        if not self.database.is_sqlite:
            since = self.lease.now()
            self.database.write(lambda tx: host_agents.keep_alive(tx, self.owner, self.lease.duration))
            with self._lock:
                self.lease.renew(since)
                late, self._late = self._late, []
            for reply in late:
                self.destroy_stray(reply)
        with self.database.read() as connection:
            own = workflows.of_owner(connection, self.owner)
        self._go_on(own)
        return len(own) + self.resume()

    def retry_broken(self) -> None:
        """Go on with workflows of this process whose step broke, at the step that the journal has."""
        with self._lock:
            broken = sorted(self._broken)
        with self.database.read() as connection:
            found = [workflows.get(connection, flow_uuid, self.owner) for flow_uuid in broken]
        with self._lock:
            self._broken.difference_update(broken)
        self._go_on([flow for flow in found if flow is not None])

    def take_inheritance(self) -> int:
        """Go on with workflows that other processes handed over; return how many there are."""
        with self.database.read() as connection:
            if not workflows.is_heir(connection, self.owner):
                return 0
        inherited = self.database.write(lambda tx: workflows.inherit(tx, self.owner))
        self._go_on(inherited)
        return len(inherited)

    def _go_on(self, adopted: Sequence[Workflow]) -> None:
        waiting: dict[str, list[Workflow]] = defaultdict(list)
        with self._lock:
            for flow in adopted:
                self._flows[flow.uuid] = flow
        for flow in adopted:
            if flow.kind == batch.KIND:
                self._take_members(flow)
            if flow.kind == build.KIND and flow.step == "claim" and not flow.body.get("tried"):
                waiting[flow.reservation_id].append(flow)
            else:
                self.begin(flow)
        for flows in waiting.values():
            self.claim_soon(flows)

    def _take_members(self, leader: Workflow) -> None:
        """Make the workflows that a batch leads ours, as far as nobody alive has them."""
        everything = self.database.is_sqlite

        def take(tx: Transaction) -> int:
            return workflows.take_members(tx, leader.uuid, self.owner, everything=everything)

        while self.database.write(take):
            pass

    # --- what agents say ----------------------------------------------------------------------------------------------

    def handle(self, message: ConductorMessage) -> None:
        """Take a message of an agent."""
        match message:
            case Heartbeat():
                self.database.write(lambda tx: services.record_heartbeats(tx, message.hosts))
            case StepReply():
                self._resume_with(message)

    def greet(self, message: HostsStarted) -> Orphans:
        """Register hypervisors that start and tell which of their guests belong to no server."""
        owner = None if self.database.is_sqlite else self.owner
        return self.database.write(lambda tx: register_hosts(tx, message, owner, self.lease.duration))

    # --- for the steps ------------------------------------------------------------------------------------------------

    def send(self, flow: Workflow, message: AgentMessage) -> Workflow | None:
        """Send a message to the workflow's host and park; one that cannot be reached answers with an error at once.

        Where another process has the host's agent, it gets the workflow.
        A workflow that was cancelled meanwhile sends nothing: the lock keeps its last message ahead of those of
        whatever cancelled it.
        """
        host, step = flow.body["host"], step_id(flow)
        with self._lock:
            if flow.uuid not in self._flows:
                return None
            if not self.may_act:
                raise Unavailable("Other processes may have taken over the work of this one.")
            try:
                self._bus.cast(host, message)
            except Unavailable as error:
                refused = StepReply(step, host, flow.instance_uuid, UNREACHABLE, error.message)
            else:
                self._awaited[flow.uuid] = flow.attempt
                return None
        if self._hand_over(flow, host):
            return None
        return self._reply_to(flow, refused)

    def _hand_over(self, flow: Workflow, host: str) -> bool:
        """Give a workflow to the live process in which the agent of its host runs, if there is one (ADR 6)."""
        if self.database.is_sqlite:
            return False

        def hand_over(tx: Transaction) -> bool:
            heir = host_agents.process_of(tx.connection, host)
            if heir is None or heir == self.owner or not host_agents.is_alive(tx, heir):
                return False
            workflows.hand_over(tx, flow, self.owner, heir)
            return True

        try:
            given = self.database.write(hand_over)
        except TAKEN_OVER:
            given = True
        if given:
            self.forget(flow)
        return given

    def send_again(self, flow: Workflow) -> Workflow | None:
        """Have the present step sent once more, since its host is back; a bit later when it is our own."""
        with self.database.read() as connection:
            process = host_agents.process_of(connection, flow.body["host"])
        if process == self.owner:
            raise Unavailable(f"The agent of host {flow.body['host']} is just starting.")
        return flow

    def turn_back(self, flow: Workflow, reply: StepReply) -> Workflow | None:
        """Journal that the present step failed and is being undone."""
        failure = {"undoing": True, "error": reply.error, "details": reply.details, "fault_of": reply.fault_of}
        back = replace(flow, attempt=flow.attempt + 1, body={**flow.body, **failure})
        try:
            self.database.write(lambda tx: workflows.move(tx, back, self.owner))
        except TAKEN_OVER:
            self.forget(flow)
            return None
        return back

    def end(self, flow: Workflow, last: Callable[[Transaction], None]) -> bool:
        """Commit the last transaction of a workflow; return False if somebody else took its instance over."""
        try:
            self.database.write(last)
        except TAKEN_OVER as error:
            LOG.info("Workflow %s (%s) ends early: %s", flow.uuid, flow.kind, error)
            self.forget(flow)
            return False
        self.forget(flow)
        return True

    def forget(self, flow: Workflow) -> None:
        with self._lock:
            self._flows.pop(flow.uuid, None)
            self._jobs.pop(flow.uuid, None)
            self._awaited.pop(flow.uuid, None)

    def forget_instance(self, instance_uuid: str) -> None:
        with self._lock:
            for flow in [flow for flow in self._flows.values() if flow.instance_uuid == instance_uuid]:
                self._flows.pop(flow.uuid)
                self._jobs.pop(flow.uuid, None)
                self._awaited.pop(flow.uuid, None)

    def build_jobs(self, flows: Sequence[Workflow]) -> Mapping[str, BuildJob]:
        """Return workflow uuid → (instance, request); workflows without an instance end here."""
        with self._lock:
            found = {flow.uuid: self._jobs[flow.uuid] for flow in flows if flow.uuid in self._jobs}
        missing = [flow for flow in flows if flow.uuid not in found]
        if missing:
            uuids = [flow.instance_uuid for flow in missing]
            with self.database.read() as connection:
                present = {instance.uuid: instance for instance in instances.get_many(connection, uuids)}
                requests = request_specs.get_many(connection, present.values())
            for flow in missing:
                if flow.instance_uuid in requests:
                    found[flow.uuid] = (present[flow.instance_uuid], requests[flow.instance_uuid])
                else:
                    self.end(flow, lambda tx, flow=flow: workflows.finish(tx, flow, self.owner))  # type: ignore[misc]
            with self._lock:
                self._jobs.update(found)
        return found

    def _activate_together(self, tx: Transaction, flows: Sequence[Workflow]) -> Sequence[None]:
        workflows.finish_all(tx, flows, self.owner)
        instances.activate(tx, [self._activation(tx, flow) for flow in flows])
        compute_nodes.reset_failed_builds(tx, {flow.body["provider"] for flow in flows})
        return [None] * len(flows)

    def _activation(self, tx: Transaction, flow: Workflow) -> Activation:
        with self._lock:
            job = self._jobs.get(flow.uuid)
        instance = job[0] if job is not None else instances.get(tx.connection, flow.instance_uuid)
        kind = instance.flavor.flavor_id, instance.image_properties
        return Activation(flow.instance_uuid, flow.body["host"], flow.body["node"], *kind)

    # --- running ------------------------------------------------------------------------------------------------------

    def begin(self, flow: Workflow) -> None:
        """Run a workflow from its present step on, in the background and behind what waits there already."""
        with self._lock:
            self._flows[flow.uuid] = flow
        is_slow = flow.kind == batch.KIND and self.claimer.may_be_slow
        run = self._bus.run_aside if is_slow else self._bus.run_in_conductor
        run(lambda: self._run(flow))

    def claim_soon(self, flows: Sequence[Workflow]) -> None:
        """Claim hosts for the servers of one request in the background, where it holds up nothing else."""
        run = self._bus.run_aside if self.claimer.may_be_slow else self._bus.run_in_conductor
        run(lambda: self._claim(flows))

    def _claim(self, flows: Sequence[Workflow]) -> None:
        with self._mending(flows):
            for flow in build.claim_together(self, flows):
                self._run(flow)

    def _run(self, flow: Workflow) -> None:
        with self._mending([flow]):
            self._run_steps(flow)

    @contextmanager
    def _mending(self, flows: Sequence[Workflow]) -> Iterator[None]:
        """Log what nobody foresaw and have the workflows tried again later, as the journal has them."""
        try:
            yield
        except Exception as error:
            names = ", ".join(f"{flow.kind} {flow.instance_uuid}" for flow in flows)
            if isinstance(error, Unavailable):
                LOG.warning("Tried again later: %s: %s", names, error.message)
            else:
                LOG.exception("A step broke: %s", names)
            with self._lock:
                self._broken |= {flow.uuid for flow in flows if self._flows.pop(flow.uuid, None) is not None}

    def _run_steps(self, flow: Workflow | None) -> None:
        """Run steps until the workflow parks or ends."""
        while flow is not None:
            with self._lock:
                if flow.uuid not in self._flows:
                    return
                self._flows[flow.uuid] = flow
            step = self._step(flow)
            act = step.undo if flow.undoing else step.do
            assert act is not None
            flow = act(self, flow)

    def _resume_with(self, reply: StepReply) -> None:
        with self._lock:
            flow = self._flows.get(reply.step.workflow)
            is_expected = self._awaited.get(reply.step.workflow) == reply.step.attempt
            if is_expected:
                del self._awaited[reply.step.workflow]
        if flow is None or not is_expected:
            LOG.debug("Late reply dropped: %r", reply)
            self.destroy_stray(reply)
            return
        with self._mending([flow]):
            self._run_steps(self._reply_to(flow, reply))

    def destroy_stray(self, reply: StepReply) -> None:
        """Have a guest destroyed that runs on a host where its instance is not, or not any more."""
        if reply.power_state is not PowerState.RUNNING:
            return
        with self._lock:
            if not self.may_act:
                self._late.append(reply)  # the guests may have been reported just before this one ran
                return
        with self.database.read() as connection:
            instance = instances.find(connection, reply.instance_uuid)
        if instance is None or instance.host != reply.host:
            LOG.warning("Guest %s does not belong on host %s; it is destroyed", reply.instance_uuid, reply.host)
            try:
                self._bus.cast(reply.host, DestroyGuest(StepId("", "stray", 0), reply.instance_uuid))
            except Unavailable as error:
                LOG.warning("%s It is destroyed when the host comes back.", error.message)

    def _reply_to(self, flow: Workflow, reply: StepReply) -> Workflow | None:
        step = self._step(flow)
        act = step.undone if flow.undoing else step.reply
        assert act is not None
        return act(self, flow, reply)

    def _step(self, flow: Workflow) -> Step:
        return KINDS[flow.kind][flow.step]
