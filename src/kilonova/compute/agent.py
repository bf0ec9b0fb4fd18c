# SPDX-License-Identifier: Apache-2.0
"""The agent of one host: takes messages, has the driver do what they say, replies.

Orders for one instance are carried out in the order in which they came, those for different instances side by side.
Interrupts wait for neither. A step is carried out once: when its message comes again, its reply is told again.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from kilonova.compute.live_migrations import LiveMigrations
from kilonova.compute.orders import carry_out
from kilonova.compute.removals import GuestRemover, RunningDeleted
from kilonova.compute.step_memory import StepMemory
from kilonova.compute.virt.base import AgentStopsError, VirtDriver
from kilonova.errors import DriverError, MigrationAborted, UnsupportedGuest
from kilonova.messaging.bus import AgentBus, Work
from kilonova.messaging.lanes import AgentLane, lane_of
from kilonova.messaging.messages import (
    AbortLiveMigration,
    AgentMessage,
    AskGuests,
    AskStep,
    ConductorMessage,
    FaultOf,
    ForceCompleteLiveMigration,
    GuestsFound,
    HostsStarted,
    Interrupt,
    Order,
    StepReply,
    StepState,
    StepStatus,
)
from kilonova.model.found_guest import Removal
from kilonova.model.host import NODE_TRAITS, NodeReport
from kilonova.model.instance import PowerState

LOG = logging.getLogger(__name__)
_ANNOUNCED_TOGETHER = 200
_BROKE = "The hypervisor driver failed."


class Agent:
    """Serves one hypervisor.

    ``may_act``: whether its process may act for the host at present. A message that comes when it may not is dropped:
    whoever counts as the owner of the host by then sends another.
    ``running_deleted``: what becomes of guests of deleted servers; None stands for the default.
    """

    def __init__(
        self,
        host: str,
        driver: VirtDriver,
        bus: AgentBus,
        *,
        may_act: Callable[[], bool] = lambda: True,
        running_deleted: RunningDeleted | None = None,
    ) -> None:
        self.host = host
        self.driver = driver
        self._bus = bus
        self._may_act = may_act
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[Order]] = {}
        self._steps = StepMemory()
        self._migrations = LiveMigrations(host, self._tell)
        self._remover = GuestRemover(host, driver, running_deleted or RunningDeleted(), self._steps.forget_instance)

    def accept(self, message: AgentMessage) -> Work | None:
        """Take a message, keeping the order; return the work to do now, None when it is done behind other work."""
        if isinstance(message, Interrupt):
            interrupt = message
            return Work(AgentLane.INTERRUPT, lambda: self._handle(interrupt))
        if isinstance(message, AskGuests):
            asked = message.instance_uuids
            return Work(lane_of(message), lambda: self._tell(guests_of([self], asked)))
        known = self._steps.begin(message.step)
        if isinstance(known, StepReply):
            reply, lane = known, lane_of(message)
            return Work(lane, lambda: self._reply(reply, lane))
        if known is StepState.RUNNING:
            return None
        uuid = message.instance_uuid
        with self._lock:
            queue = self._waiting.get(uuid)
            if queue is not None:
                queue.append(message)
                return None
            self._waiting[uuid] = deque([message])
        return self._work_for(uuid, message)

    def stop(self) -> None:
        """Leave the live migrations that run as they are, so that their threads end."""
        self._migrations.stop()

    def remove(self, removals: Iterable[Removal]) -> None:
        """Have guests go that a record says have to, before messages are taken. One that cannot go stays for now."""
        for removal in removals:
            try:
                self._remover.remove(removal)
            except DriverError as error:
                LOG.warning("Host %s: guest %s stays: %s", self.host, removal.instance_uuid, error.message)

    def _work_for(self, uuid: str, order: Order) -> Work:
        return Work(lane_of(order), lambda: self._work_off(uuid, order))

    def _work_off(self, uuid: str, order: Order) -> Work | None:
        """Carry out the first order that waits for an instance; return the work for the next one."""
        is_allowed = self._is_allowed(order)
        reply = self._carry_out(order) if is_allowed else None
        self._steps.end(order.step, reply)
        if reply is not None:
            self._reply(reply, lane_of(order))
        elif not is_allowed:  # whoever runs the workflow sends it again, rather than wait for a reply
            self._tell(StepStatus(order.step, self.host, uuid, StepState.UNKNOWN), urgent=True)
        with self._lock:
            queue = self._waiting[uuid]
            queue.popleft()
            if queue:
                return self._work_for(uuid, queue[0])
            del self._waiting[uuid]
        return None

    def _handle(self, interrupt: Interrupt) -> None:
        if not isinstance(interrupt, AskStep) and not self._is_allowed(interrupt):
            return
        match interrupt:
            case AbortLiveMigration():
                self._migrations.abort(interrupt)
            case ForceCompleteLiveMigration():
                self._migrations.force_complete(interrupt)
            case AskStep():
                status = self._steps.status(self.host, interrupt.instance_uuid, interrupt.step)
                self._tell(status, urgent=True)

    def _is_allowed(self, message: AgentMessage) -> bool:
        may_act = self._may_act()
        if not may_act:
            LOG.warning("Host %s: %s dropped", self.host, type(message).__name__)
        return may_act

    def _reply(self, reply: StepReply, lane: AgentLane) -> None:
        self._tell(reply, urgent=lane is AgentLane.DELETE or reply.aborted)

    def _tell(self, message: ConductorMessage, *, urgent: bool = False) -> None:
        """Send a message. A reply that the bus does not take is not lost: the step can be asked for."""
        try:
            self._bus.tell(message, urgent=urgent)
        except Exception:
            LOG.exception("Host %s: %s could not be sent", self.host, type(message).__name__)

    def _carry_out(self, order: Order) -> StepReply | None:
        """Carry an order out; None when it was left halfway."""
        uuid = order.instance_uuid
        try:
            power_state = carry_out(order, self.driver, self._migrations, self._remover)
        except AgentStopsError:
            LOG.info("Host %s: %s of guest %s is left as it is", self.host, type(order).__name__, uuid)
            return None
        except DriverError as error:
            LOG.info("Host %s: %s", self.host, error.message)
            return StepReply(
                order.step,
                self.host,
                uuid,
                error.message,
                power_state=self._power_state(uuid),
                fault_of=FaultOf.REQUEST if isinstance(error, UnsupportedGuest) else FaultOf.HOST,
                aborted=isinstance(error, MigrationAborted),
            )
        except Exception as error:
            LOG.exception("Host %s: driver failed on %r", self.host, order)
            details = f"{type(error).__name__}: {error}"
            return StepReply(order.step, self.host, uuid, _BROKE, details, self._power_state(uuid))
        return StepReply(order.step, self.host, uuid, power_state=power_state)

    def _power_state(self, uuid: str) -> PowerState:
        try:
            return self.driver.list_guests().get(uuid, PowerState.NOSTATE)
        except Exception as error:  # noqa: BLE001 - the driver has failed already, this is to say how badly
            LOG.info("Host %s: the state of guest %s is unknown: %s", self.host, uuid, error)
            return PowerState.NOSTATE


def guests_of(agents: Sequence[Agent], asked: tuple[str, ...] | None = None) -> GuestsFound:
    """Return which guests agents have: all of them, or those that are ``asked`` for."""
    # First when they were ordered: a guest that comes in between then counts as one without our mark, which stays.
    marked = {agent.host: dict(agent.driver.marked_guests()) for agent in agents}
    guests = {agent.host: dict(agent.driver.list_guests()) for agent in agents}
    if asked is not None:
        marked = {host: {uuid: at for uuid, at in each.items() if uuid in asked} for host, each in marked.items()}
        guests = {host: {uuid: state for uuid, state in each.items() if uuid in asked} for host, each in guests.items()}
    return GuestsFound(guests, marked, asked)


def start_agents(agents: Sequence[Agent], bus: AgentBus) -> None:
    """Announce hypervisors and their guests, have guests go that a record says have to, then take messages."""
    for start in range(0, len(agents), _ANNOUNCED_TOGETHER):
        group = {agent.host: agent for agent in agents[start : start + _ANNOUNCED_TOGETHER]}
        reports: list[NodeReport] = []
        for agent in group.values():
            said = agent.driver.report()
            reports.append(replace(said, traits=(*NODE_TRAITS, *said.traits)))
        found = guests_of(tuple(group.values()))
        orphans = bus.announce(HostsStarted(tuple(reports), found.guests, found.marked))
        for host, removals in orphans.removals.items():
            group[host].remove(removals)
        for agent in group.values():
            bus.serve_agent(agent.host, agent.accept)
