# SPDX-License-Identifier: Apache-2.0
"""Placement of servers: decide on the mirror, assume the claim, commit it; decide again if the claim lost a race.

::

    lock ── snapshot ── decide ── assume ── unlock ── commit (batched with other claims) ──▶ confirmed through the log
              ▲                                          │ a guard failed
              └──────────────── forget ◀─────────────────┘
"""

import logging
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import field
from typing import NoReturn

import numpy as np
import sqlalchemy as sa

from kilonova.claims.building import NEW_SERVER
from kilonova.claims.commit import Bundle, InstancesGone, commit_bundles
from kilonova.claims.decision_inputs import DecisionInputs
from kilonova.claims.decision_log import DecisionLog
from kilonova.claims.decision_trace import DecisionTrace
from kilonova.claims.image_traits import require_traits
from kilonova.claims.known_requests import KnownRequests
from kilonova.claims.no_valid_host import no_valid_host
from kilonova.claims.observers import ClaimObservers
from kilonova.claims.outside_driver import Answer, AnsweredBatch, OutsideDriver
from kilonova.claims.placing import Chosen, Claim, NextStep, Placing
from kilonova.claims.port_room import Room, room_for_ports
from kilonova.db.core import tables as t
from kilonova.db.core.statements import mapping
from kilonova.db.database import Database
from kilonova.db.workflows import WorkflowRow
from kilonova.errors import ClaimLost, NoValidHost
from kilonova.identifiers import new_uuid
from kilonova.logs.request_context import RequestContext, working_for
from kilonova.mirror.mirror import Mirror
from kilonova.mirror.state import Assumption
from kilonova.model.host_devices import DeviceShare
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_migration import MoveKind
from kilonova.records import dataclass, replace
from kilonova.scheduler.decision import Decision, RankedHost
from kilonova.scheduler.devices.choice import RANKED_KEPT, first_that_gives, needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.engine.batch import Batch
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.group_policies import group_for, require_support
from kilonova.scheduler.engine.kept_decisions import KeptDecisions
from kilonova.scheduler.engine.provider_trees import Allotment
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.live_hosts import LiveHosts
from kilonova.scheduler.resources import with_resources

LOG = logging.getLogger(__name__)
_MAX_RACES = 32
_CLASS_IDS = sa.select(t.resource_classes.c.name, t.resource_classes.c.id)
#: Stands for the id of a resource class that was deleted after the decision. No inventory has it, so the claim fails.
_NO_CLASS = -1
PIECE = 100


@dataclass(frozen=True, slots=True)
class Job:
    """One server of an order.

    ``at_host``: called with the chosen host; returns the changes of the server's workflow. One transaction commits
    these changes and the claim of the host. The function must not block.
    """

    instance_uuid: str
    at_host: Callable[[Chosen], NextStep]


@dataclass(frozen=True, slots=True)
class Order:
    """Servers of one request, to be placed all or none.

    All servers are decided together. If there are too many for one transaction, their hosts are claimed in several
    transactions.

    ``placing``: how the claims change the servers. A move is an order of one server.
    """

    spec: RequestSpec
    jobs: tuple[Job, ...]
    group_uuid: str | None = None
    placing: Placing = NEW_SERVER


@dataclass(frozen=True, slots=True)
class Placed:
    """The committed ``claims``, in the order of the jobs.

    ``gone``: instances that got no claim, because they were deleted or changed before the commit.

    ``alternates``: the next best hosts, which this request has not claimed.
    """

    claims: tuple[Claim, ...]
    gone: frozenset[str] = frozenset()
    alternates: tuple[RankedHost, ...] = ()

    @property
    def workflows(self) -> tuple[WorkflowRow, ...]:
        return tuple(claim.workflow for claim in self.claims)


@dataclass(slots=True)
class _Plan:
    """The decisions and assumed claims of one order, before they are committed.

    ``taken``: for each claim, two mappings with the claimed resources: provider id → class name → amount, and provider
    id → class id → amount. The second mapping stays empty until :meth:`Claimer._add_allocations` fills it, which may
    have to read ids from the database.
    """

    claims: list[Claim] = field(default_factory=list)
    taken: list[tuple[Mapping[int, Mapping[str, int]], dict[int, Mapping[int, int]]]] = field(default_factory=list)
    decisions: list[tuple[str, Decision, str | None]] = field(default_factory=list)
    hosts: HostTable | None = None
    seq: int = 0
    inputs: DecisionInputs | None = None
    server_indices: tuple[int, ...] = ()
    alternates: tuple[RankedHost, ...] = ()
    move: MoveKind | None = None
    trace: DecisionTrace | None = None


@dataclass(slots=True)
class _NoHost(Exception):
    """No host was found for the server with number ``index`` and uuid ``instance``; ``decision`` has the reasons."""

    decision: Decision
    index: int
    instance: str


class Claimer:
    """Places servers: decides, claims the hosts and commits the claims. Thread-safe.

    ``alternates``: number of alternate hosts to keep per request, which is the maximum number of build attempts minus
    one. ``aliases``: the configured PCI aliases. ``check_kept_decisions``: whether to compare decisions from kept
    verdicts with those of the whole engine.
    """

    def __init__(
        self,
        database: Database,
        mirror: Mirror,
        engine: Engine,
        owner: str,
        log: DecisionLog,
        *,
        rng: np.random.Generator | None = None,
        aliases: Mapping[str, Alias] | None = None,
        alternates: int = 2,
        driver: OutsideDriver | None = None,
        piece: int = PIECE,
        observers: ClaimObservers | None = None,
        check_kept_decisions: bool = False,
    ) -> None:
        #: Maximum number of servers claimed in one transaction, which limits the wait of other transactions.
        self.piece = piece
        self._database = database
        self._mirror = mirror
        self._engine = engine
        #: Guarded by the mirror's lock.
        self._kept = KeptDecisions(engine, check=check_kept_decisions)
        self._owner = owner
        self._log = log
        self._rng = rng
        self._aliases = aliases or {}
        #: Guarded by the mirror's lock.
        self._known_requests = KnownRequests(self._aliases)
        self._alternates = alternates
        self._driver = driver
        self._observers = observers or ClaimObservers()
        self._class_ids: dict[str, int] = {}

    def place(self, order: Order) -> Placed:
        """Claim a host for every instance of ``order``.

        Raises: NoValidHost with the number of hosts that each rule rejected, if any instance gets no host. Nothing is
        claimed then, except by transactions that were committed before the failure. The journals of the workflows
        contain the claims of these transactions; the caller has to release them.
        """
        with working_for(_context_of(order.spec)):
            return self._place(order)

    def _place(self, order: Order) -> Placed:
        gone: frozenset[str] = frozenset()
        placed: dict[str, Claim] = {}
        self._observers.sought(order.spec)
        for _ in range(_MAX_RACES):
            waiting = tuple(job for job in order.jobs if job.instance_uuid not in gone | placed.keys())
            if not waiting:
                return Placed(tuple(placed.values()), gone)
            started = time.perf_counter()
            try:
                plan = self._plan(order if len(waiting) == len(order.jobs) else replace(order, jobs=waiting))
            finally:
                self._observers.decided(len(waiting), time.perf_counter() - started)
            count = 0
            try:
                while count < len(plan.claims):
                    piece = tuple(plan.claims[count : count + self.piece])
                    outcome = self._database.write_batched(commit_bundles, Bundle(piece, self._owner))
                    if isinstance(outcome, InstancesGone):
                        gone |= outcome.uuids
                        break
                    placed |= {claim.instance_uuid: claim for claim in piece}
                    count += len(piece)
            except ClaimLost as lost:
                self._observers.lost()
                LOG.info("%s Deciding again.", lost.message)
                self._class_ids = {}  # a resource class may have been deleted and created again with another id
            finally:
                self._forget(plan.claims[count:])
                if count:
                    self._record(order.spec.request_id, plan, count)
            if count == len(plan.claims):
                self._observers.found(order.spec)
                return Placed(tuple(placed.values()), gone, plan.alternates)
        raise NoValidHost("No valid host was found. Each claim failed because another request was faster; try again.")

    def require_room(self, spec: RequestSpec, group_uuid: str | None, count: int, one_of_them: str) -> None:
        """Raise NoValidHost unless there is room for ``count`` servers of a request now. Nothing is claimed.

        The decisions use an isolated snapshot and no lock, so they may be slow. ``one_of_them``: uuid of the instance
        for which a refusal is recorded.
        """
        if self._driver is not None:
            return  # only the third-party driver can decide, and it is called only when hosts are claimed
        spec, needs = with_resources(spec), needs_of(with_resources(spec), self._aliases)
        if group_uuid is not None:
            spec = replace(spec, group=self._mirror.group(group_uuid))
        plan = _Plan(hosts=self._mirror.snapshot_apart(), seq=self._mirror.seq)
        assert plan.hosts is not None
        batch = Batch(self._engine, plan.hosts, spec, limit=1, rng=self._rng)
        for index in range(count):
            decision = batch.decide()
            best, devices = first_that_gives(decision, plan.hosts, needs)
            if best is None:
                self._refuse(spec, plan, decision, index, count, one_of_them)
            batch.place(best.row, self._engine.allocations(plan.hosts, spec, best.row), devices)

    def require_fit(self, spec: RequestSpec, instance_uuid: str) -> None:
        """Raise NoValidHost unless the host that a request names suits an existing server. Nothing is claimed.

        The decision is recorded. A third-party scheduler driver is not called, because it can only choose hosts.
        """
        plan = _Plan(hosts=self._mirror.snapshot(), seq=self._mirror.seq, move=spec.move)
        assert plan.hosts is not None
        decision = self._engine.decide(plan.hosts, with_resources(spec), limit=1)
        if not decision.ranked:
            self._refuse(spec, plan, decision, 0, 1, instance_uuid)
        with self._database.read() as connection:
            require_traits(connection, instance_uuid, spec.image)
        plan.decisions, plan.server_indices = [(instance_uuid, decision, decision.ranked[0].host)], (0,)
        self._record(spec.request_id, plan, 1)

    def find_room(self, spec: RequestSpec, host: str, node: str, cells: Collection[int] = ()) -> Room:
        """Return what the ports of a request can get on the present host of their server. Nothing is claimed.

        ``cells``: as for :func:`room_for_ports`. Raises: NoValidHost, InvalidRequest.
        """
        self._mirror.catch_up()
        return room_for_ports(self._mirror.snapshot(), spec, host, node, cells)

    def zone_of(self, host: str) -> str | None:
        """Return the availability zone of a host that was claimed, or None. It cannot change while servers are there.

        Raises: Unavailable.
        """
        return self._mirror.zone_of(host)

    @property
    def calls_foreign_driver(self) -> bool:
        """True if :meth:`place` calls a third-party scheduler driver. A call may take seconds."""
        return self._driver is not None

    def close(self) -> None:
        """Stop waiting for replies of a third-party scheduler driver."""
        if self._driver is not None:
            self._driver.close()

    def keep_up(self) -> None:
        """Apply the changes of other processes to the mirror now. If the mirror falls too far behind, reload it."""
        self._mirror.catch_up()

    def _plan(self, order: Order) -> _Plan:
        """Decide, and assume the claims in the mirror.

        If the decision fails, the assumed claims are removed from the mirror before the lock is released.
        """
        plan = _Plan(move=order.spec.move)
        answer = None if self._driver is None else self._ask(self._driver, order)
        self._mirror.catch_up()
        try:
            with self._mirror.lock:  # nothing in this block may wait for I/O
                try:
                    self._decide(order, plan, answer)
                except BaseException:
                    self._forget(plan.claims)
                    raise
        except _NoHost as none:
            self._refuse(order.spec, plan, none.decision, none.index, len(order.jobs), none.instance)
        finally:
            if plan.trace is not None:
                plan.trace.log()
        try:
            self._add_allocations(plan)
        except BaseException:
            self._forget(plan.claims)
            raise
        return plan

    def _ask(self, driver: OutsideDriver, order: Order) -> Answer:
        """Make a third-party driver choose hosts, and return its answer; the guards of the claims check the choice.

        The lock is not held, because the driver may be slow.
        """
        waiting = tuple(job.instance_uuid for job in order.jobs)
        spec = replace(with_resources(order.spec), instance_uuids=waiting)
        hosts = self._mirror.snapshot()
        if order.group_uuid is not None:
            spec = replace(spec, group=group_for(spec, self._mirror.group(order.group_uuid), hosts))
        return driver.answer(spec, hosts, self._mirror.group)

    def _decide(self, order: Order, plan: _Plan, answer: Answer | None) -> None:
        """Decide for all servers of an order on one snapshot.

        Each decision treats the servers decided before it as placed.
        """
        spec, derived = self._known_requests.derived(order.spec)
        live, now = self._mirror.live(), self._mirror.clock()
        if order.group_uuid is not None:
            spec = replace(spec, group=group_for(spec, self._mirror.group(order.group_uuid), live.hosts))
        if spec.group is not None:
            require_support(self._engine, spec.group.policy)
        plan.seq = self._mirror.seq
        count = len(order.jobs)
        # The servers of an order are counted in a copy of the columns. For a single server, the live columns suffice.
        plan.hosts = live.hosts if count == 1 else self._mirror.hosts(now)
        isolation_version = (answer or live.hosts.aggregates).isolation_version
        shape = derived.shape if spec.group is None else None
        batch = (
            self._batch(order, plan, spec, live, now, shape) if answer is None else AnsweredBatch(answer, plan.hosts)
        )
        hosts = plan.hosts
        for index, job in enumerate(order.jobs):
            decision = batch.decide()
            best, devices = first_that_gives(decision, hosts, derived.needs)
            if best is None:
                raise _NoHost(decision, index, job.instance_uuid)
            plan.decisions.append((job.instance_uuid, decision, best.host))
            if plan.trace is not None:
                plan.trace.selected(index, count, best)
            allotment = self._engine.allotment(hosts, spec, best.row)
            given = allotment.amounts
            by_id: dict[int, Mapping[int, int]] = {}
            plan.taken.append(({self._mirror.provider_id(uuid): named for uuid, named in given.items()}, by_id))
            claim = self._claim(spec, order, job, best, allotment, by_id, devices, isolation_version)
            plan.claims.append(claim)
            # The group already counts a server that stays on its host.
            joins = order.group_uuid if best.host != order.placing.home else None
            self._mirror.assume(
                Assumption(claim.claim_id, given, best.host, best.node, joins, derived.guest, best.uuid, devices)
            )
            if count > 1:
                batch.place(best.row, given, devices)
        plan.server_indices = tuple(range(count))
        chosen = {claim.host for claim in plan.claims}
        if count > 1:
            plan.alternates = batch.alternates(self._alternates, chosen)
        else:
            ranked = plan.decisions[0][1].ranked
            plan.alternates = tuple(host for host in ranked if host.host not in chosen)[: self._alternates]

    def _batch(
        self, order: Order, plan: _Plan, spec: RequestSpec, live: LiveHosts, now: float, shape: Hashable | None
    ) -> Batch:
        """Return the decisions for an order. The first decision is made at once, from kept verdicts if possible."""
        assert plan.hosts is not None
        count, seed = len(order.jobs), self._seed()
        limit = RANKED_KEPT if count <= RANKED_KEPT else 1 + self._alternates
        rng = None if seed is None else np.random.default_rng(seed)
        plan.inputs = DecisionInputs(order.spec, order.group_uuid, limit, plan.seq, now, self._mirror.assumed(), seed)
        plan.trace = DecisionTrace.if_wanted(plan.hosts)
        if plan.trace is not None:  # only the whole engine lists the verdicts of each rule
            plan.hosts = self._mirror.hosts(now)
            return Batch(self._engine, plan.hosts, spec, limit=limit, rng=rng, trace=plan.trace)
        first = self._kept.decide(live, now, spec, limit=limit, rng=rng, shape=shape)
        return Batch(self._engine, plan.hosts, spec, limit=limit, rng=rng, first=first)

    def _seed(self) -> int | None:
        """Return a random seed to record with the decisions, or None if the decisions use no randomness."""
        if self._rng is None or not self._engine.takes_chances:
            return None
        return int(self._rng.integers(2**63))

    def _claim(
        self,
        spec: RequestSpec,
        order: Order,
        job: Job,
        best: RankedHost,
        allotment: Allotment,
        by_id: Mapping[int, Mapping[int, int]],
        devices: DeviceShare | None,
        isolation_version: int,
    ) -> Claim:
        return Claim(
            claim_id=new_uuid(),
            instance_uuid=job.instance_uuid,
            project_id=spec.project_id,
            user_id=spec.user_id,
            allocations=by_id,
            host=best.host,
            node=best.node,
            next_step=job.at_host(Chosen(best.host, best.node, best.uuid, devices, allotment.providers)),
            placing=order.placing,
            group_uuid=order.group_uuid,
            node_uuid=best.uuid,
            devices=devices,
            isolation_version=isolation_version,
            flavor_id=spec.flavor.flavor_id,
            image_properties=spec.image.properties if spec.image else {},
        )

    def _forget(self, claims: Sequence[Claim]) -> None:
        for claim in claims:
            self._mirror.forget(claim.claim_id)

    def _refuse(
        self, spec: RequestSpec, plan: _Plan, decision: Decision, index: int, count: int, uuid: str
    ) -> NoReturn:
        """Record the refusal once for all servers of the order, and raise NoValidHost."""
        plan.decisions = [(uuid, decision, None)]
        plan.server_indices = (index,)
        self._record(spec.request_id, plan, 1)
        raise no_valid_host(decision, spec, index, count)

    def _record(self, request_id: str, plan: _Plan, count: int) -> None:
        """Store the first ``count`` decisions of a plan in the decision log."""
        assert plan.hosts is not None
        self._observers.removed(plan.decisions[0][1].rejected)
        inputs = None if plan.inputs is None else self._log.encoded(plan.inputs)
        self._log.record(
            request_id=request_id,
            seq=plan.seq,
            hosts=plan.hosts,
            made=[
                (instance_uuid, index, decision, chosen)
                for (instance_uuid, decision, chosen), index in zip(
                    plan.decisions[:count], plan.server_indices[:count], strict=True
                )
            ],
            alternates=plan.alternates,
            inputs=inputs,
            move=plan.move,
        )

    def _add_allocations(self, plan: _Plan) -> None:
        """Fill in the allocations of the claims, in which resource classes are given by their database ids."""
        ids = self._class_ids
        if not all(name in ids for taken, _ in plan.taken for amounts in taken.values() for name in amounts):
            with self._database.read() as connection:
                ids = self._class_ids = mapping(connection, _CLASS_IDS)
        for taken, by_id in plan.taken:
            for provider_id, amounts in taken.items():
                by_id[provider_id] = {ids.get(name, _NO_CLASS): amount for name, amount in amounts.items()}


def _context_of(spec: RequestSpec) -> RequestContext:
    """Return the request context that log lines of rules and drivers contain."""
    return RequestContext(spec.request_id, spec.user_id, spec.project_id)
