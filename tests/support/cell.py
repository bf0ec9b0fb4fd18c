# SPDX-License-Identifier: Apache-2.0
"""The parts behind the API, wired by hand on an SQLite file: claims, conductor, agents, simulated hypervisors.

``Cell.restart`` stands for a new process after ``kill -9``: everything in memory is new, files and database stay.
"""

import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy as sa

from kilonova.claims.claimer import Claimer
from kilonova.claims.decision_log import DecisionLog
from kilonova.claims.outside_driver import OutsideDriver
from kilonova.cli.rules import build_engine
from kilonova.compute.agent import Agent, start_agents
from kilonova.compute.virt.fake import FakeDriver
from kilonova.conductor.lease import Lease
from kilonova.conductor.service import Conductor
from kilonova.conductor.upkeep import Upkeep
from kilonova.db import instances, server_groups
from kilonova.db import tables as t
from kilonova.db.database import Database
from kilonova.db.transaction import Merged
from kilonova.identifiers import new_uuid
from kilonova.mirror.mirror import Mirror
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.quota import NO_LIMITS, Limits
from kilonova.model.request_spec import RequestSpec
from kilonova.model.requester import Requester
from kilonova.model.server_group import ServerGroup
from kilonova.scenario.model import AllocationRatios, SimulatedHost
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.settings import SchedulerConfig
from support.manual_bus import ManualBus
from support.world import check_world, guests_on_disk

SMALL = Flavor("1", "m1.tiny", vcpus=1, memory_mib=512, root_gib=1)
IMAGE = Image("70a599e0-31e7-49b7-b260-868f441e862b", "cirros")
PLAIN = AllocationRatios(cpu=1.0, memory=1.0, disk=1.0, reserved_memory_mib=0)


def asker(request_id: str) -> Requester:
    """The user of every server here."""
    return Requester(request_id, "alice", "wonder")


class Killed(BaseException):
    """The process is gone. Nothing may catch it."""


class MortalDatabase(Database):
    """Tells ``event`` before each transaction is handed over and after it is durable."""

    event: Callable[[str], None] = staticmethod(lambda _: None)

    def submit_merged(self, run: Merged[Any, Any], item: Any) -> "Future[Any]":
        self.event("before a transaction")
        future = super().submit_merged(run, item)
        future.exception()
        self.event("after a transaction")
        return future

    def write_merged(self, run: Merged[Any, Any], item: Any) -> Any:
        return self.submit_merged(run, item).result()


@dataclass
class Cell:
    """One control process with its agents."""

    folder: Path
    hosts: tuple[SimulatedHost, ...]
    database: Database
    bus: Any
    mirror: Mirror
    claimer: Claimer
    conductor: Conductor
    drivers: Mapping[str, FakeDriver] = field(default_factory=dict)
    agents: Sequence[Agent] = ()

    def boot(
        self,
        count: int = 1,
        *,
        flavor: Flavor = SMALL,
        group: str | None = None,
        image: Image = IMAGE,
        at_least: int | None = None,
        **asked: Any,
    ) -> list[str]:
        """Ask for servers in one request, and return their uuids."""
        uuids = [new_uuid() for _ in range(count)]
        reservation = f"r-{uuids[0][:8]}"
        built = [
            Instance(
                0,
                uuid,
                f"vm{index}",
                "wonder",
                "alice",
                VmState.BUILDING,
                flavor,
                task_state=TaskState.SCHEDULING,
                image_ref=image.id,
                reservation_id=reservation,
                launch_index=index,
            )
            for index, uuid in enumerate(uuids)
        ]
        spec = RequestSpec(
            flavor=flavor,
            image=image,
            project_id="wonder",
            user_id="alice",
            request_id=f"req-{uuids[0]}",
            instance_uuids=tuple(uuids),
            **asked,
        )
        self.conductor.build(built, spec, group, at_least=at_least)
        return uuids

    def add_group(self, policy: str, limit: int = 1) -> str:
        group = ServerGroup(new_uuid(), "group", policy, "wonder", "alice", limit)
        self.database.write(lambda tx: server_groups.create(tx, group, limit=-1))
        return group.uuid

    def delete(self, uuid: str) -> None:
        self.conductor.operations.delete(self.instance(uuid), asker("req-delete"))

    def power(self, uuid: str, kind: str) -> None:
        self.conductor.operations.change_power(self.instance(uuid), kind, asker(f"req-{kind}"))

    def instance(self, uuid: str) -> Instance:
        with self.database.read() as connection:
            return instances.get(connection, uuid)

    def find(self, uuid: str) -> Instance | None:
        with self.database.read() as connection:
            return instances.find(connection, uuid)

    def failed_builds(self) -> dict[str, int]:
        with self.database.read() as connection:
            return {
                row.host: row.failed_builds
                for row in connection.execute(sa.select(t.compute_nodes.c.host, t.compute_nodes.c.failed_builds))
            }

    def renew_leases(self) -> None:
        """The moment has come at which the process does what it does every few seconds."""
        Upkeep(self.conductor, "control", (), self.announce).renew()

    def announce(self) -> None:
        """The agents introduce themselves (again)."""
        start_agents(self.agents, self.bus)

    def reconnect(self) -> None:
        """Hosts that could not be reached are back: their agents introduce themselves again."""
        back, self.bus.cut_off = self.bus.cut_off, set()
        start_agents([Agent(name, self.drivers[name], self.bus) for name in sorted(back)], self.bus)

    def check(self) -> dict[str, str]:
        """The world is at rest and in order, and so is the mirror. Returns uuid → vm_state."""
        with self.database.read() as connection:
            states = check_world(connection, guests_on_disk(self.folder / "hypervisors"))
        assert not self.mirror.assumed()
        assert not self.conductor.runner.known
        assert not self.conductor.runner._awaited
        return states

    def restart(self, bus: Any = None, **changed: Any) -> "Cell":
        """A new process on the same files. The old one is not told."""
        hosts = tuple(replace(host, **changed) for host in self.hosts)
        return start_cell(self.folder, hosts, bus=bus, database=Database(str(self.database.url)))


def start_cell(
    folder: Path,
    hosts: tuple[SimulatedHost, ...],
    *,
    bus: Any = None,
    database: Database | None = None,
    engine: Any = None,
    driver: OutsideDriver | None = None,
    max_attempts: int = 3,
    piece: int = 100,
    lease: Lease | None = None,
    limits: Limits = NO_LIMITS,
    config: SchedulerConfig | None = None,
) -> Cell:
    """Start a control process as ``cli/control.py`` does, on a bus of the test's own."""
    database = database or Database(f"sqlite:///{folder / 'kilonova.db'}")
    bus = bus or ManualBus()
    mirror = Mirror.follow(database)
    owner = new_uuid()
    config = config or SchedulerConfig()
    engine = engine or build_engine(config)
    log = DecisionLog(database, 1000)
    claimer = Claimer(
        database,
        mirror,
        engine,
        owner,
        log,
        rng=np.random.default_rng(1),
        driver=driver,
        aliases=read_aliases(config.pci_alias),
        piece=piece,
    )
    conductor = Conductor(
        database, claimer, bus, owner, max_attempts=max_attempts, limits=limits, lease=lease, pause_s=lambda _tries: 0.0
    )
    (folder / "hypervisors").mkdir(exist_ok=True)
    drivers = {host.name: FakeDriver(host, folder / "hypervisors" / f"{host.name}.json", PLAIN) for host in hosts}
    agents = [Agent(name, driver, bus, may_act=lambda: conductor.runner.may_act) for name, driver in drivers.items()]
    conductor.membership.enter(lambda: start_agents(agents, bus))
    return Cell(folder, hosts, database, bus, mirror, claimer, conductor, drivers, agents)


def new_cell(template: Path, folder: Path, *hosts: SimulatedHost, **options: Any) -> Cell:
    """Start a cell on a fresh database."""
    shutil.copy(template, folder / "kilonova.db")
    return start_cell(folder, hosts, **options)


def host(name: str, **facts: Any) -> SimulatedHost:
    """A host with room for four small servers unless told otherwise."""
    return SimulatedHost(name, **{"vcpus": 4, "memory_mib": 4096, "disk_gib": 100, **facts})


#: What the fixture ``cell_of`` is: takes hosts, and options of :func:`start_cell`.
NewCell = Callable[..., Cell]
