# SPDX-License-Identifier: Apache-2.0
"""Control processes and agent processes on a fake broker, where a test delivers each message (ADR 20)."""

from datetime import timedelta
from pathlib import Path

from kilonova.compute.agent import Agent
from kilonova.compute.sessions import Sessions
from kilonova.compute.virt.fake import FakeDriver
from kilonova.db import enrolment, host_agents
from kilonova.db.database import Database
from kilonova.lease import Lease
from kilonova.messaging.codec import VERSION
from support.cell import PLAIN, Cell, host, start_cell
from support.manual_broker import AgentEnd, ManualBroker
from support.processes import pass_time
from support.world import check_world, guests_on_disk

#: Longer than the lease of any process.
OVER = host_agents.LEASE + timedelta(seconds=1)


class AgentProcess:
    """One run of the agent process of one host; a new object on the same folder is a restart."""

    def __init__(self, world: "World", name: str, served: str, version: int = VERSION) -> None:
        self.bus = AgentEnd(world.broker, name, version)
        self.lease = Lease(host_agents.LEASE, clock=world.seconds)
        self.driver = FakeDriver(host(served), world.hypervisors / f"{served}.json", PLAIN)
        self.agent = Agent(served, self.driver, self.bus, may_act=lambda: self.lease.is_held)
        self.sessions = Sessions([self.agent], self.bus, self.lease, 10.0)

    def begin(self) -> "AgentProcess":
        self.sessions.turn()
        return self

    def kill(self) -> None:
        self.bus.close()


class World:
    """Database, broker, control processes and agents on a clock that the test advances."""

    def __init__(self, url: str, folder: Path) -> None:
        self.broker = ManualBroker()
        self.hypervisors = folder / "hypervisors"
        self.hypervisors.mkdir()
        self._url = url
        self._folder = folder
        self._passed = 0.0
        self._opened: list[Database] = []

    def seconds(self) -> float:
        return self._passed

    def control(self) -> Cell:
        database = Database(self._url)
        self._opened.append(database)
        lease = Lease(host_agents.LEASE, clock=self.seconds)
        cell = start_cell(self._folder, (), database=database, lease=lease, connect=self.broker.connect)
        cell.bus.write_heartbeats = cell.conductor.heartbeats.write
        self.look(cell)
        return cell

    def agent(self, name: str, served: str, version: int = VERSION) -> AgentProcess:
        """Return an enrolled agent process that is not started."""
        self._opened[0].write(lambda tx: enrolment.enrol(tx, name, [served]))
        return AgentProcess(self, name, served, version)

    def look(self, *cells: Cell) -> None:
        """Run the control processes' periodic refresh of the agent directory."""
        for cell in cells:
            assert cell.conductor.directory is not None
            cell.conductor.directory.look()

    def pass_time(self, passed: timedelta) -> None:
        self._passed += passed.total_seconds()
        pass_time(self._opened[0], passed)

    def run(self, *cells: Cell) -> None:
        busy = True
        while busy:
            self.broker.run()
            busy = sum(cell.conductor.process_lease.take_handed_over() for cell in cells) > 0

    def check(self, cell: Cell) -> dict[str, str]:
        with cell.database.read() as connection:
            return check_world(connection, guests_on_disk(self.hypervisors))

    def notice_silence(self) -> None:
        """Mark processes as silent whose last heartbeat is older than the lease."""
        self._opened[0].write(lambda tx: host_agents.mark_silent(tx, tx.now - host_agents.LEASE))

    def close(self) -> None:
        for database in self._opened:
            database.close()
