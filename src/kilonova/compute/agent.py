# SPDX-License-Identifier: Apache-2.0
"""The agent of one host: takes messages, has the driver do what they say, replies.

Orders for one instance are carried out in the order in which they came, those for different instances side by side.
Interrupts wait for neither. A step is carried out once: when its message comes again, its reply is told again.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
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

LOG = logging.getLogger(__name__)
#: What says nothing against the host.
_FAULTS_OF_REQUESTS = (AbilityMissing, UnsupportedGuest, ImageUnusable)
_SUPERSEDED = "The operation has gone on since this was asked for."


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """An order that waits for its turn, or has it. ``session``: of the agent when it came."""

    order: Order
    session: int


class Agent:
    """Serves one hypervisor.

    ``may_act``: whether its process may act for the host at present. A message that comes when it may not, or whose
    turn comes in a later session, is dropped: whoever counts as the owner of the host by then sends another.
    ``running_deleted``: what becomes of guests of deleted servers. ``shutdown_times``: how long guests may take to shut
    down. None stands for the defaults.
    ``max_snapshots``: how many disks it copies or uploads at once; 0 stands for any number.
    ``absence_s``: how long an order waits for a hypervisor that is away.
    ``reports_images``: whether it tells the scheduler which images its host keeps.
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
        #: What became of orders while this process might not act, and whether that is urgent. It is told when it may
        #: act again: nobody can do anything about it before.
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
        """Take a message, keeping the order; return the work to do now, None when it is done behind other work."""
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
            LOG.warning("Host %s: %s of guest %s is refused: %s", self.host, type(message).__name__, uuid, _SUPERSEDED)
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
        """What its driver can do beside what every driver can."""
        return self._able.abilities

    def report(self) -> NodeReport:
        """Describe the hypervisor, as the driver does, its abilities and the images it keeps. Raises: DriverError."""
        report = self.driver.report()
        report = replace(report, capabilities=replace(report.capabilities, abilities=_names(self.abilities)))
        return with_images(report, self._able) if self._reports_images else report

    def begin_session(self) -> None:
        """Drop what waits: others may have gone on with it while this process was counted as dead."""
        with self._lock:
            self._session += 1

    def tell_late_replies(self) -> None:
        """Tell what became of orders meanwhile, now that this process may act and its host is known to be here.

        Guests that were made may not have been there yet when the guests of the host were reported.
        """
        with self._lock:
            untold, self._untold = self._untold, []
        for message, urgent in untold:
            self._tell(message, urgent=urgent)

    def stop(self) -> None:
        """Leave live migrations and snapshots that run, and guests that shut down, so that their threads end."""
        self._migrations.stop()
        self._snapshots.stop()
        self._shutdowns.stop()
        self._reconnect.stop()
        self.driver.close()

    def remove(self, removals: Iterable[Removal]) -> None:
        """Have guests go that a record says have to, before messages are taken. One that cannot go stays for now.

        Raises: AgentStopsError.
        """
        for removal in removals:
            try:
                self._remover.remove(removal)
            except DriverError as error:
                LOG.warning("Host %s: guest %s stays: %s", self.host, removal.instance_uuid, error.message)
            except AgentStopsError:
                raise
            except Exception:
                LOG.exception("Host %s: guest %s stays", self.host, removal.instance_uuid)

    def roll_back(self, due: Iterable[PendingRollback]) -> tuple[StepReply, ...]:
        """Have guests be what they were before moves that were undone meanwhile; return what to tell of them.

        Raises: AgentStopsError.
        """
        return tuple(roll_back(self.host, self._able, each) for each in due)

    def tell_home(self, replies: Iterable[StepReply]) -> None:
        """Tell what came of guests that were to be taken back."""
        for reply in replies:
            self._tell(reply)

    def tell_removed(self, removals: Iterable[Removal]) -> None:
        """Tell which of the guests that had to go are still there."""
        self._tell(guests_of([self], tuple(removal.instance_uuid for removal in removals)))

    def _work_for(self, waiting: _Waiting) -> Work | None:
        """Return the work for the first order of an instance; None when it waits for its turn at the host."""
        return self._work(waiting) if self._concurrency_limit.enter(type(waiting.order), waiting) else None

    def _work(self, waiting: _Waiting) -> Work:
        return Work(pool_of(waiting.order), lambda: self._work_off(waiting))

    def _call_off(self, workflow: str) -> Work | None:
        """Return the work for an order of a workflow that waits for its turn at the host, and is not wanted any more.

        Something else has come for that workflow.
        """
        waiting = (
            self._concurrency_limit.call_off(lambda each: each.order.step.workflow == workflow) if workflow else None
        )
        if waiting is None:
            return None
        return Work(AgentPool.INTERRUPT, lambda: self._work_off(waiting, wanted=False))

    def _work_off(self, waiting: _Waiting, *, wanted: bool = True) -> Sequence[Work]:
        """Carry out the first order that waits for an instance; return the work for those that were behind it.

        One that is not ``wanted`` any more is only answered, with what makes it end.
        """
        order, uuid = waiting.order, waiting.order.instance_uuid
        is_allowed = self._is_allowed(order, waiting.session)
        wanted = wanted and not self._steps.is_superseded(order.step)
        reply = (self._carry_out(order) if wanted else self._refuse(order)) if is_allowed else None
        self._steps.end(order.step, reply)
        if reply is not None:
            self._reply(reply, pool_of(order))
        elif not is_allowed:  # whoever runs the workflow sends it again, rather than wait for a reply
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
        """Return the reply to an order that nobody waits for any more, or that was to be aborted before it began."""
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
            LOG.warning("Host %s: %s of guest %s dropped", self.host, type(message).__name__, message.instance_uuid)
        return is_allowed

    def _is_urgent(self, uuid: str) -> bool:
        """Tell whether something waits that is not to wait until a guest has shut down."""
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
        """Send a message. A reply that the bus does not take is not lost: the step can be asked for."""
        try:
            self._bus.tell(message, urgent=urgent)
        except Exception:
            LOG.exception("Host %s: %s could not be sent", self.host, type(message).__name__)

    def _carry_out(self, order: Order) -> StepReply | None:
        """Carry an order out; None when it was left halfway."""
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
            LOG.info("Host %s: %s of guest %s is left as it is", self.host, type(order).__name__, uuid)
            return None
        except DriverError as error:
            details = "" if error.__cause__ is None else f"{type(error.__cause__).__name__}: {error.__cause__}"
            LOG.info("Host %s: %s %s", self.host, error.message, details)
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
            LOG.exception("Host %s: driver failed on %r", self.host, order)
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
        except Exception as error:  # noqa: BLE001 - the driver has failed already, this is to say how badly
            LOG.info("Host %s: the state of guest %s is unknown: %s", self.host, uuid, error)
            return PowerState.NOSTATE


def _ends_waiting(order: Order) -> bool:
    """Tell whether an order ends what waits for a guest to shut down, since nothing depends on that any more."""
    return isinstance(order, DestroyGuest | CallOff) or (isinstance(order, RebootGuest) and order.hard)


@cache
def _names(abilities: frozenset[Ability]) -> tuple[str, ...]:
    """Return abilities as they are reported: the same ones for all hosts of one make."""
    return tuple(sorted(ability.value for ability in abilities))


def guests_of(agents: Sequence[Agent], asked: tuple[str, ...] | None = None) -> GuestsFound:
    """Return which guests agents have: all of them, or those that are ``asked`` for."""
    # First when they were ordered: a guest that comes in between then counts as one without our mark, which stays.
    marked = {agent.host: dict(agent.driver.marked_guests()) for agent in agents}
    guests = {agent.host: dict(agent.driver.list_guests()) for agent in agents}
    if asked is not None:
        marked = {host: {uuid: at for uuid, at in each.items() if uuid in asked} for host, each in marked.items()}
        guests = {host: {uuid: state for uuid, state in each.items() if uuid in asked} for host, each in guests.items()}
    return GuestsFound(guests, marked, asked)
