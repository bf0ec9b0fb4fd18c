# SPDX-License-Identifier: Apache-2.0
"""The agent of one host: takes messages, calls the driver, replies.

Messages of one instance run in the order in which they came, those of different instances side by side.
"""

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kilonova.compute.virt.base import VirtDriver
from kilonova.errors import DriverError, UnsupportedGuest
from kilonova.messaging.local import Bus, LocalBus
from kilonova.messaging.messages import (
    AgentMessage,
    DestroyGuest,
    FaultOf,
    HostsStarted,
    RebootGuest,
    SpawnGuest,
    StartGuest,
    StepReply,
    StopGuest,
)
from kilonova.model.host import NODE_TRAITS, NodeReport
from kilonova.model.instance import PowerState

LOG = logging.getLogger(__name__)
_ANNOUNCED_TOGETHER = 200
_BROKE = "The hypervisor driver failed."


class Agent:
    """Serves one hypervisor.

    ``may_act``: whether its process may act for the host at present. A message that comes when it may not is dropped:
    whoever counts as the owner of the host by then sends another.
    """

    def __init__(self, host: str, driver: VirtDriver, bus: Bus, *, may_act: Callable[[], bool] = lambda: True) -> None:
        self.host = host
        self.driver = driver
        self._bus = bus
        self._may_act = may_act
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[AgentMessage]] = {}

    def accept(self, message: AgentMessage) -> Callable[[], None] | None:
        """Queue a message, keeping the order; return the work to run in a thread, None when its instance has one."""
        uuid = message.instance_uuid
        with self._lock:
            queue = self._waiting.get(uuid)
            if queue is not None:
                queue.append(message)
                return None
            self._waiting[uuid] = deque([message])
        return lambda: self._work_off(uuid)

    def _work_off(self, uuid: str) -> None:
        queue = self._waiting[uuid]
        while True:
            try:
                if self._may_act():
                    self._bus.tell(self._carry_out(queue[0]))
                else:
                    LOG.warning("Host %s: %s dropped", self.host, type(queue[0]).__name__)
            except Exception:
                LOG.exception("Host %s: a reply could not be sent", self.host)
            with self._lock:
                queue.popleft()
                if not queue:
                    del self._waiting[uuid]
                    return

    def _carry_out(self, message: AgentMessage) -> StepReply:
        uuid = message.instance_uuid
        try:
            power_state = self._call_driver(message)
        except DriverError as error:
            LOG.info("Host %s: %s", self.host, error.message)
            fault_of = FaultOf.REQUEST if isinstance(error, UnsupportedGuest) else FaultOf.HOST
            state = self._power_state(uuid)
            return StepReply(message.step, self.host, uuid, error.message, power_state=state, fault_of=fault_of)
        except Exception as error:
            LOG.exception("Host %s: driver failed on %r", self.host, message)
            details = f"{type(error).__name__}: {error}"
            return StepReply(message.step, self.host, uuid, _BROKE, details, self._power_state(uuid))
        return StepReply(message.step, self.host, uuid, power_state=power_state)

    def _call_driver(self, message: AgentMessage) -> PowerState:
        match message:
            case SpawnGuest():
                self.driver.spawn(message.guest)
                return PowerState.RUNNING
            case DestroyGuest():
                self.driver.destroy(message.instance_uuid)
                return PowerState.NOSTATE
            case StartGuest():
                self.driver.start(message.instance_uuid)
                return PowerState.RUNNING
            case StopGuest():
                self.driver.stop(message.instance_uuid)
                return PowerState.SHUTDOWN
            case RebootGuest():
                self.driver.reboot(message.instance_uuid, hard=message.hard)
                return PowerState.RUNNING

    def _power_state(self, uuid: str) -> PowerState:
        try:
            return self.driver.list_guests().get(uuid, PowerState.NOSTATE)
        except Exception as error:  # noqa: BLE001 - the driver has failed already, this is to say how badly
            LOG.info("Host %s: the state of guest %s is unknown: %s", self.host, uuid, error)
            return PowerState.NOSTATE


def start_agents(agents: Sequence[Agent], bus: LocalBus) -> None:
    """Announce hypervisors and their guests, destroy guests that belong elsewhere or nowhere, then take messages."""
    for start in range(0, len(agents), _ANNOUNCED_TOGETHER):
        group = {agent.host: agent for agent in agents[start : start + _ANNOUNCED_TOGETHER]}
        reports: list[NodeReport] = []
        guests: dict[str, Mapping[str, PowerState]] = {}
        for agent in group.values():
            said = agent.driver.report()
            reports.append(replace(said, traits=(*NODE_TRAITS, *said.traits)))
            guests[agent.host] = agent.driver.list_guests()
        orphans = bus.announce(HostsStarted(tuple(reports), guests))
        for host, uuids in orphans.guests.items():
            for uuid in uuids:
                LOG.warning("Host %s: the server of guest %s is deleted or elsewhere; it is destroyed", host, uuid)
                group[host].driver.destroy(uuid)
        for host, uuids in orphans.unknown.items():
            LOG.warning("Host %s: nothing is known of guests %s; they are kept", host, ", ".join(uuids))
        for agent in group.values():
            bus.serve_agent(agent.host, agent.accept)
