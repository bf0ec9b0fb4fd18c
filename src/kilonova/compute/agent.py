# SPDX-License-Identifier: Apache-2.0
"""The agent of one host: receives orders, carries them out with the virt driver, and sends replies.

Orders for the same instance run in the order of arrival, orders for different instances concurrently. Messages of type
Interrupt are handled at once. Each step runs once: a duplicate of its order is answered with the stored reply.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cache

from kilonova.compute import reboots
from kilonova.compute.able_driver import AbleDriver
from kilonova.compute.concurrency_limits import ConcurrencyLimit, HostLimits
from kilonova.compute.hypervisor_reconnect import ABSENCE_S, HypervisorReconnect
from kilonova.compute.image_reports import with_images
from kilonova.compute.live_migrations import LiveMigrations
from kilonova.compute.orders import carry_out
from kilonova.compute.pending_rollbacks import DRIVER_FAILED, roll_back
from kilonova.compute.questions import Questions
from kilonova.compute.removals import GuestRemover, RunningDeleted
from kilonova.compute.shutdowns import Shutdowns, ShutdownTimes
from kilonova.compute.snapshots import Snapshots
from kilonova.compute.step_memory import StepMemory, SupersededError
from kilonova.compute.virt.abilities import CanCacheImages
from kilonova.compute.virt.base import AgentStopsError, VirtDriver
from kilonova.errors import (
    AbilityMissing,
    DriverError,
    ImageUnusable,
    MigrationAborted,
    SnapshotCancelled,
    UnsupportedGuest,
)
from kilonova.messaging.bus import AgentBus, Work
from kilonova.messaging.messages import (
    AbortLiveMigration,
    AgentMessage,
    AskGuests,
    AskPowerStates,
    AskStep,
    CacheImages,
    CallOff,
    CancelSnapshot,
    ConductorMessage,
    DestroyGuest,
    FaultOf,
    ForceCompleteLiveMigration,
    GuestAnswer,
    GuestQuestion,
    GuestsFound,
    Interrupt,
    LiveMigrate,
    Order,
    PendingRollback,
    PowerStatesAnswer,
    RebootGuest,
    StepReply,
    StepState,
    StepStatus,
    TaskReached,
)
from kilonova.messaging.thread_pools import AgentPool, pool_of
from kilonova.model.ability import Ability
from kilonova.model.found_guest import Removal
from kilonova.model.host import NodeReport
from kilonova.model.image_data import CacheResult, ImageData
from kilonova.model.instance import PowerState, TaskState
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
#: Errors of a driver whose cause is the request or its image, not the host.
_FAULTS_OF_REQUESTS = (AbilityMissing, UnsupportedGuest, ImageUnusable)
_SUPERSEDED = "A later attempt of this operation has replaced this order."


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """An order that is queued or running. ``session``: the agent's session number when the order arrived."""

    order: Order
    session: int


class Agent:
    """Carries out the orders for one hypervisor.

    ``may_act``: tells whether the process holds the lease to act for the host. An order is dropped if the lease is lost
    or a new session has begun since the order arrived; a control process sends the order again.
    ``running_deleted``: the action on guests of deleted servers; None for the default action.
    ``shutdown_times``: shutdown timeouts of guests; None for the default timeouts.
    ``max_snapshots``: how many snapshots may be copied or uploaded at once; 0 for no limit.
    ``absence_s``: seconds for which an order is retried while the hypervisor is unreachable.
    ``reports_images``: whether the node report lists the cached images of the host.
    """

    def __init__(
        self,
        host: str,
        driver: VirtDriver,
        bus: AgentBus,
        *,
        may_act: Callable[[], bool] = lambda: True,
        running_deleted: RunningDeleted | None = None,
        limits: HostLimits | None = None,
        max_snapshots: int = 0,
        shutdown_times: ShutdownTimes | None = None,
        absence_s: float = ABSENCE_S,
        reports_images: bool = False,
    ) -> None:
        self.host = host
        self.driver = driver
        self._able = AbleDriver(host, driver)
        self._bus = bus
        self._may_act = may_act
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[_Waiting]] = {}
        self._session = 0
        #: Replies and step states that are held back while this process does not hold the lease of the host, each with
        #: its urgency. Control processes could not use them before this process holds the lease again.
        self._untold: list[tuple[StepReply | StepStatus, bool]] = []
        self._concurrency_limit: ConcurrencyLimit[_Waiting] = ConcurrencyLimit(limits or HostLimits())
        self._reports_images = reports_images
        self._steps = StepMemory()
        self._questions = Questions(host, self._able)
        self._migrations = LiveMigrations(host, self._tell)
        self._snapshots = Snapshots(max_snapshots)
        self._reconnect = HypervisorReconnect(absence_s)
        self._shutdowns = Shutdowns(shutdown_times or ShutdownTimes(), self._is_urgent)
        self._remover = GuestRemover(host, self._able, running_deleted or RunningDeleted(), self._steps.forget_instance)

    def accept(self, message: AgentMessage) -> Work | None:
        """Accept the next message in order of arrival; return the work that can run now, or None if there is none."""
        if isinstance(message, Interrupt):
            interrupt = message
            return Work(AgentPool.INTERRUPT, lambda: self._handle(interrupt))
        if isinstance(message, GuestQuestion):
            answer = self._questions.accept(message)
            return Work(pool_of(message), lambda: self._answer(answer))
        if isinstance(message, AskGuests):
            asked = message.instance_uuids
            return Work(pool_of(message), lambda: self._tell(guests_of([self], asked)))
        if isinstance(message, AskPowerStates):
            question = message
            return Work(pool_of(message), lambda: self._tell(self._states_asked_for(question)))
        uuid, pool = message.instance_uuid, pool_of(message)
        try:
            known = self._steps.begin(message.step)
        except SupersededError:
            LOG.warning("Host %s refused %s of guest %s: %s", self.host, type(message).__name__, uuid, _SUPERSEDED)
            refusal = StepReply(message.step, self.host, uuid, _SUPERSEDED, fault_of=FaultOf.REQUEST)
            return Work(pool, lambda: self._reply(refusal, pool))
        if isinstance(known, StepReply):
            reply = known
            return Work(pool, lambda: self._reply(reply, pool))
        if known is StepState.RUNNING:
            return None
        with self._lock:
            waiting = _Waiting(message, self._session)
            queue = self._waiting.get(uuid)
            if queue is None:
                self._waiting[uuid] = deque([waiting])
            else:
                queue.append(waiting)
        if queue is None:
            return self._work_for(waiting)
        if isinstance(message, RebootGuest):
            self._reached(message, reboots.waiting(message))
        if _ends_waiting(message):
            self._shutdowns.cut_short(uuid)
        return self._call_off(message.step.workflow)

    @property
    def abilities(self) -> frozenset[Ability]:
        """The optional abilities of the driver."""
        return self._able.abilities

    def report(self) -> NodeReport:
        """Return the driver's report of its hypervisor, with abilities and cached images added. Raises: DriverError."""
        report = self.driver.report()
        report = replace(report, capabilities=replace(report.capabilities, abilities=_names(self.abilities)))
        return with_images(report, self._able) if self._reports_images else report

    def begin_session(self) -> None:
        """Begin a new session. Queued orders become invalid, since their workflows may no longer wait for them."""
        with self._lock:
            self._session += 1

    def tell_late_replies(self) -> None:
        """Send the replies that were held back while this process was not allowed to act for the host.

        To be called after the host's guests were reported: the report may lack guests that the replies announce.
        """
        with self._lock:
            untold, self._untold = self._untold, []
        for message, urgent in untold:
            self._tell(message, urgent=urgent)

    def stop(self) -> None:
        """Abandon live migrations, snapshots and guest shutdowns without cleanup, so that their threads end."""
        self._migrations.stop()
        self._snapshots.stop()
        self._shutdowns.stop()
        self._reconnect.stop()
        self.driver.close()

    def remove(self, removals: Iterable[Removal]) -> None:
        """Remove the guests named by removal records before messages are accepted.

        A guest that cannot be removed stays until the next report of the host's guests. Raises: AgentStopsError.
        """
        for removal in removals:
            try:
                self._remover.remove(removal)
            except DriverError as error:
                LOG.warning(
                    "Host %s: guest %s could not be removed: %s", self.host, removal.instance_uuid, error.message
                )
            except AgentStopsError:
                raise
            except Exception:
                LOG.exception("Host %s: guest %s could not be removed", self.host, removal.instance_uuid)

    def roll_back(self, due: Iterable[PendingRollback]) -> tuple[StepReply, ...]:
        """Restore the guests of moves that were rolled back while this host was down; return the replies to send.

        Raises: AgentStopsError.
        """
        return tuple(self._roll_back(each) for each in due)

    def _roll_back(self, due: PendingRollback) -> StepReply:
        self._remover.note_restored(due.guest)
        return roll_back(self.host, self._able, due)

    def tell_home(self, replies: Iterable[StepReply]) -> None:
        """Send the replies that report the results of pending rollbacks."""
        for reply in replies:
            self._tell(reply)

    def tell_removed(self, removals: Iterable[Removal]) -> None:
        """Report which of the guests named by removal records still exist."""
        self._tell(guests_of([self], tuple(removal.instance_uuid for removal in removals)))

    def _work_for(self, waiting: _Waiting) -> Work | None:
        """Return the work for the first order of an instance, or None if a concurrency limit of the host delays it."""
        return self._work(waiting) if self._concurrency_limit.enter(type(waiting.order), waiting) else None

    def _work(self, waiting: _Waiting) -> Work:
        return Work(pool_of(waiting.order), lambda: self._work_off(waiting))

    def _call_off(self, workflow: str) -> Work | None:
        """Return the work that refuses the delayed order of a workflow; None if no concurrency limit delays its order.

        A newer message of the same workflow has made the delayed order obsolete.
        """
        waiting = (
            self._concurrency_limit.call_off(lambda each: each.order.step.workflow == workflow) if workflow else None
        )
        if waiting is None:
            return None
        return Work(AgentPool.INTERRUPT, lambda: self._work_off(waiting, wanted=False))

    def _work_off(self, waiting: _Waiting, *, wanted: bool = True) -> Sequence[Work]:
        """Carry out the first queued order of an instance; return the work for the orders that can run now.

        ``wanted``: False for an obsolete order. Such an order is not carried out; its reply is an error, which ends the
        step.
        """
        order, uuid = waiting.order, waiting.order.instance_uuid
        is_allowed = self._is_allowed(order, waiting.session)
        wanted = wanted and not self._steps.is_superseded(order.step)
        reply = (self._carry_out(order) if wanted else self._refuse(order)) if is_allowed else None
        self._steps.end(order.step, reply)
        if reply is not None:
            self._reply(reply, pool_of(order))
        elif not is_allowed:  # UNKNOWN makes the control process send the order again
            self._tell_in_time(StepStatus(order.step, self.host, uuid, StepState.UNKNOWN), urgent=True)
        with self._lock:
            queue = self._waiting[uuid]
            queue.popleft()
            behind = queue[0] if queue else None
            if behind is None:
                del self._waiting[uuid]
        heir = self._concurrency_limit.leave(type(order), waiting)
        own = None if behind is None else self._work_for(behind)
        return [work for work in (own, None if heir is None else self._work(heir)) if work is not None]

    def _refuse(self, order: Order) -> StepReply:
        """Return the error reply to an order replaced by a newer attempt, or to a migration aborted before it began."""
        is_aborted = isinstance(order, LiveMigrate)
        said = MigrationAborted().message if is_aborted else _SUPERSEDED
        power_state = self._power_state(order.instance_uuid)
        return StepReply(order.step, self.host, order.instance_uuid, said, power_state=power_state, aborted=is_aborted)

    def _handle(self, interrupt: Interrupt) -> Sequence[Work]:
        if not isinstance(interrupt, AskStep) and not self._is_allowed(interrupt, self._session):
            return ()
        match interrupt:
            case AbortLiveMigration():
                self._migrations.abort(interrupt)
                work = self._call_off(interrupt.step.workflow)
                return () if work is None else (work,)
            case ForceCompleteLiveMigration():
                self._migrations.force_complete(interrupt)
            case CancelSnapshot():
                self._snapshots.cancel(interrupt)
            case AskStep():
                status = self._steps.status(self.host, interrupt.instance_uuid, interrupt.step)
                self._tell(status, urgent=True)
        return ()

    def _answer(self, answer: Callable[[], GuestAnswer | None]) -> None:
        answered = answer()
        if answered is not None:
            self._tell(answered, urgent=True)

    def _is_allowed(self, message: AgentMessage, session: int) -> bool:
        is_allowed = self._may_act() and session == self._session
        if not is_allowed:
            LOG.warning(
                "Host %s dropped %s of guest %s: lease or session lost",
                self.host,
                type(message).__name__,
                message.instance_uuid,
            )
        return is_allowed

    def _is_urgent(self, uuid: str) -> bool:
        """Tell whether a queued order makes it pointless to wait for the guest's shutdown."""
        with self._lock:
            return any(_ends_waiting(waiting.order) for waiting in self._waiting.get(uuid, ()))

    def _reached(self, order: Order, task: TaskState) -> None:
        self._tell(TaskReached(order.step, self.host, order.instance_uuid, task))

    def _reply(self, reply: StepReply, pool: AgentPool) -> None:
        self._tell_in_time(reply, urgent=pool is AgentPool.DELETE or reply.aborted)

    def _tell_in_time(self, message: StepReply | StepStatus, *, urgent: bool) -> None:
        with self._lock:
            if not self._may_act():
                self._untold.append((message, urgent))
                return
        self._tell(message, urgent=urgent)

    def _tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        """Send a message. An error is only logged: if a reply is lost, the control process can query the step."""
        try:
            self._bus.tell(message, urgent=urgent)
        except Exception:
            LOG.exception("Host %s could not send %s", self.host, type(message).__name__)

    def _carry_out(self, order: Order) -> StepReply | None:
        """Carry out an order; return its reply, or None if the agent stopped before the order was finished."""
        uuid = order.instance_uuid
        if isinstance(order, CacheImages):
            results = {image.image_id: self._cache(image) for image in order.images}
            return StepReply(order.step, self.host, uuid, images=results)
        try:
            power_state = self._reconnect.bridge(
                lambda: carry_out(
                    order,
                    self._able,
                    self._migrations,
                    self._remover,
                    self._shutdowns,
                    self._snapshots,
                    lambda task: self._reached(order, task),
                )
            )
        except AgentStopsError:
            LOG.info("Host %s abandoned %s of guest %s: the agent is stopping", self.host, type(order).__name__, uuid)
            return None
        except DriverError as error:
            details = "" if error.__cause__ is None else f"{type(error.__cause__).__name__}: {error.__cause__}"
            LOG.info("Host %s: order failed: %s %s", self.host, error.message, details)
            return StepReply(
                order.step,
                self.host,
                uuid,
                error.message,
                details,
                power_state=self._power_state(uuid),
                fault_of=FaultOf.REQUEST if isinstance(error, _FAULTS_OF_REQUESTS) else FaultOf.HOST,
                aborted=isinstance(error, (MigrationAborted, SnapshotCancelled)),
            )
        except Exception as error:
            LOG.exception("Host %s: the driver failed on %r", self.host, order)
            details = f"{type(error).__name__}: {error}"
            return StepReply(order.step, self.host, uuid, DRIVER_FAILED, details, self._power_state(uuid))
        return StepReply(order.step, self.host, uuid, power_state=power_state)

    def _cache(self, image: ImageData) -> CacheResult:
        keeps = self._able.find(CanCacheImages)
        if keeps is None:
            return CacheResult.UNSUPPORTED
        try:
            return keeps.cache_image(image)
        except Exception:
            LOG.exception("Host %s: image %s could not be fetched", self.host, image.image_id)
            return CacheResult.ERROR

    def _states_asked_for(self, asked: AskPowerStates) -> PowerStatesAnswer:
        present = self.driver.list_guests()
        guests = {uuid: present[uuid] for uuid in asked.seen if uuid in present}
        return PowerStatesAnswer(self.host, guests, asked.seen, asked.resume)

    def _power_state(self, uuid: str) -> PowerState:
        try:
            return self.driver.list_guests().get(uuid, PowerState.NOSTATE)
        except Exception as error:  # noqa: BLE001 - a reply can be sent without the power state
            LOG.info("Host %s: the state of guest %s is unknown: %s", self.host, uuid, error)
            return PowerState.NOSTATE


def _ends_waiting(order: Order) -> bool:
    """Tell whether an order removes or powers off the guest, which ends the wait for a graceful shutdown."""
    return isinstance(order, DestroyGuest | CallOff) or (isinstance(order, RebootGuest) and order.hard)


@cache
def _names(abilities: frozenset[Ability]) -> tuple[str, ...]:
    """Return the names of abilities for a report. Cached, so that hosts with equal abilities share one tuple."""
    return tuple(sorted(ability.value for ability in abilities))


def guests_of(agents: Sequence[Agent], asked: tuple[str, ...] | None = None) -> GuestsFound:
    """Return all guests on the hosts of ``agents``, or only the guests of the instances ``asked``."""
    # Kilonova's marks in the guests are read before the list of guests: a guest that is created in between counts as
    # unmarked, and unmarked guests are never removed.
    marked = {agent.host: dict(agent.driver.marked_guests()) for agent in agents}
    guests = {agent.host: dict(agent.driver.list_guests()) for agent in agents}
    if asked is not None:
        marked = {host: {uuid: at for uuid, at in each.items() if uuid in asked} for host, each in marked.items()}
        guests = {host: {uuid: state for uuid, state in each.items() if uuid in asked} for host, each in guests.items()}
    return GuestsFound(guests, marked, asked)
