# SPDX-License-Identifier: Apache-2.0
"""Core of a control process (everything behind the APIs) on a message bus and a database of the test.

``Cell.restart`` simulates a new process after ``kill -9``: memory is lost, files and database survive.
"""

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import sqlalchemy as sa

from kilonova.claims.claimer import Claimer
from kilonova.claims.outside_driver import OutsideDriver
from kilonova.cli.wiring.core import Connect, Parts, keep_alive, start_core
from kilonova.cli.wiring.rules import Rules, build_engine
from kilonova.compute.agent import Agent
from kilonova.compute.sessions import start_agents
from kilonova.conductor.periodic.unwanted_images import ImageRemover
from kilonova.conductor.service import Conductor
from kilonova.conductor.workflow_engine.retries import MAX_TRIES
from kilonova.conductor.workflows.interfaces import ATTACH_INTERFACE, AttachFacts
from kilonova.config.compute import ComputeSettings
from kilonova.config.conductor import ConductorSettings
from kilonova.config.database import DatabaseSettings
from kilonova.config.fake import FakeSettings
from kilonova.config.operator import OperatorSettings
from kilonova.config.settings import Settings
from kilonova.db import host_agents, instance_networks, instances, request_specs, server_groups, server_migrations
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import BatchedWrite
from kilonova.db.database import Database
from kilonova.identifiers import new_uuid
from kilonova.lease import Lease
from kilonova.mirror.mirror import Mirror
from kilonova.model.aggregate import Aggregate
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.instance import Instance, TaskState, VmState
from kilonova.model.network_event import NetworkEvent, NetworkEventName
from kilonova.model.network_info import NetworkInfo
from kilonova.model.network_request import NO_NETWORKS, NetworkMode, NetworkRequest, RequestedNetwork
from kilonova.model.new_image import NewImage
from kilonova.model.quota import NO_LIMITS, Limits
from kilonova.model.request_spec import RequestSpec
from kilonova.model.requester import Requester
from kilonova.model.server_group import ServerGroup
from kilonova.model.server_migration import OPEN, ServerMigration
from kilonova.network.host_demands import demands_of_request
from kilonova.process_parts import ProcessParts
from kilonova.scenario.model import SimulatedHost
from kilonova.scheduler.settings import SchedulerConfig
from support.fake_neutron import FakeNeutron
from support.folder_images import FolderImages
from support.manual_bus import ManualBus
from support.world import check_guests, check_images, check_world, guests_on_disk

SMALL = Flavor("1", "m1.tiny", vcpus=1, memory_mib=512, root_gib=1)
BIGGER = Flavor("2", "m1.small", vcpus=2, memory_mib=1024, root_gib=2)
IMAGE = Image("70a599e0-31e7-49b7-b260-868f441e862b", "cirros")
RESCUE_IMAGE = Image("1c3ab1b5-0cd4-4a6e-9a4e-3b4a7f2a4c11", "rescue", properties={"hw_rescue_bus": "virtio"})
PASSWORD = "correct-horse-battery"
#: Host settings without overcommit and reserved memory, and with short shutdown timeouts.
AS_BIG_AS_IT_IS = ComputeSettings(
    cpu_allocation_ratio=1.0,
    ram_allocation_ratio=1.0,
    disk_allocation_ratio=1.0,
    reserved_host_memory_mib=0,
    shutdown_timeout_s=0.1,
    wait_soft_reboot_s=0.1,
)
#: Allocation ratios without overcommit, for simulated hypervisors.
PLAIN = AllocationRatios(cpu=1.0, memory=1.0, disk=1.0, reserved_memory_mib=0)


def asker(request_id: str) -> Requester:
    """Return the requester that owns every server of these tests."""
    return Requester(request_id, "alice", "wonder")


class Killed(BaseException):
    """Simulated ``kill -9`` of the process. No handler may catch it."""


class MortalDatabase(Database):
    """Database that calls ``event`` before it submits a transaction and after the transaction is durable."""

    event: Callable[[str], None] = staticmethod(lambda _: None)

    def submit_batched(self, run: BatchedWrite[Any, Any], item: Any) -> "Future[Any]":
        self.event("before a transaction")
        future = super().submit_batched(run, item)
        future.exception()
        self.event("after a transaction")
        return future

    def write_batched(self, run: BatchedWrite[Any, Any], item: Any) -> Any:
        return self.submit_batched(run, item).result()


@dataclass
class Cell:
    """Core of one control process and its agents."""

    folder: Path
    hosts: tuple[SimulatedHost, ...]
    database: Database
    bus: Any
    mirror: Mirror
    claimer: Claimer
    conductor: Conductor
    drivers: Mapping[str, Any] = field(default_factory=dict)
    agents: Sequence[Agent] = ()
    images: FolderImages | None = None
    image_remover: ImageRemover | None = None
    neutron: FakeNeutron | None = None

    def boot(
        self,
        count: int = 1,
        *,
        flavor: Flavor = SMALL,
        group: str | None = None,
        image: Image = IMAGE,
        at_least: int | None = None,
        config_drive: bool = False,
        networks: NetworkRequest = NO_NETWORKS,
        **asked: Any,
    ) -> list[str]:
        """Request servers in one API request, and return their uuids."""
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
                image_properties=image.properties,
                config_drive="True" if config_drive else "",
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
            networks=demands_of_request(self.neutron, networks) if self.neutron is not None else (),
            **asked,
        )
        self.conductor.build(built, spec, group, networks=networks, at_least=at_least)
        return uuids

    def add_group(self, policy: str, limit: int = 1) -> str:
        group = ServerGroup(new_uuid(), "group", policy, "wonder", "alice", limit)
        self.database.write(lambda tx: server_groups.create(tx, group, limit=-1))
        return group.uuid

    def delete(self, uuid: str, *, soft: bool = False) -> None:
        self.conductor.operations.deletes.delete(uuid, asker("req-delete"), soft=soft)

    def restore(self, uuid: str) -> None:
        self.conductor.operations.deletes.restore(uuid, asker("req-restore"))

    def force_delete(self, uuid: str) -> None:
        self.conductor.operations.deletes.force(uuid, asker("req-force-delete"))

    def reclaim(self, interval_s: float = 0.0) -> int:
        """Start the deletion of servers that were soft-deleted more than ``interval_s`` seconds ago."""
        return self.conductor.operations.deletes.reclaim(timedelta(seconds=interval_s))

    def time_out_builds(self, age_s: float = 0.0) -> int:
        """Fail the builds that started more than ``age_s`` seconds ago."""
        return self.conductor.operations.builds.time_out(timedelta(seconds=age_s))

    def confirm_unconfirmed(self, window_s: float = 0.0) -> int:
        """Confirm the resizes that finished more than ``window_s`` seconds ago."""
        return self.conductor.operations.moves.confirm_unconfirmed(timedelta(seconds=window_s))

    def unrescue_forgotten(self, age_s: float = 0.0) -> int:
        """Unrescue the servers that were rescued more than ``age_s`` seconds ago."""
        return self.conductor.operations.rescues.unrescue_forgotten(timedelta(seconds=age_s))

    def power(self, uuid: str, kind: str) -> None:
        self.conductor.operations.power.change(uuid, kind, asker(f"req-{kind}"))

    def force_stop(self, uuid: str) -> None:
        self.conductor.operations.power.repair(uuid, "force-stop", asker("req-force-stop"))

    def rescue(self, uuid: str) -> None:
        self.conductor.operations.rescues.rescue(uuid, RESCUE_IMAGE, PASSWORD, asker("req-rescue"))

    def unrescue(self, uuid: str) -> None:
        self.conductor.operations.rescues.unrescue(uuid, asker("req-unrescue"))

    def change_password(self, uuid: str) -> None:
        self.conductor.operations.rescues.change_password(uuid, PASSWORD, asker("req-password"))

    def crash_dump(self, uuid: str) -> None:
        self.conductor.operations.rescues.crash_dump(uuid, asker("req-dump"))

    def resize(self, uuid: str, flavor: Flavor = BIGGER, *, stays: bool = False) -> None:
        self.conductor.operations.moves.resize(uuid, flavor, asker("req-resize"), stays=stays)

    def migrate(self, uuid: str, host: str | None = None) -> None:
        self.conductor.operations.moves.migrate(uuid, asker("req-migrate"), host=host)

    def live_migrate(self, uuid: str, host: str | None = None) -> None:
        self.conductor.operations.live_migrations.begin(uuid, asker("req-live-migrate"), host=host)

    def attach(self, uuid: str, network: RequestedNetwork) -> None:
        """Start attaching an interface, without waiting for the result."""
        assert self.neutron is not None
        request = NetworkRequest(mode=NetworkMode.LISTED, networks=(network,))
        demand = next(iter(demands_of_request(self.neutron, request)), None)
        starter = self.conductor.operations.interfaces._starter
        starter.start(
            ATTACH_INTERFACE,
            lambda server: AttachFacts(server.host or "", network, demand=demand),
            uuid,
            asker("req-attach"),
        )

    def detach(self, uuid: str, port_id: str) -> None:
        self.conductor.operations.interfaces.detach(uuid, port_id, asker("req-detach"))

    def create_image(self, uuid: str) -> str:
        image_id, operations = new_uuid(), self.conductor.operations.snapshots
        who, register = asker("req-create-image"), self._registered(image_id, uuid, image_type="snapshot")
        operations.create_image(uuid, image_id, who, register)
        return image_id

    def create_backup(self, uuid: str, rotation: int = 1) -> str:
        image_id, operations = new_uuid(), self.conductor.operations.snapshots
        who, register = asker("req-create-backup"), self._registered(image_id, uuid, image_type="backup")
        operations.create_backup(uuid, image_id, rotation, who, register)
        return image_id

    def shelve(self, uuid: str, *, offload: bool = True) -> None:
        image_id, operations = new_uuid(), self.conductor.operations.shelving
        register = self._registered(image_id, uuid, image_type="snapshot")
        operations.shelve(uuid, image_id, asker("req-shelve"), register, offload=offload)

    def cache_image(self, name: str = "rack") -> None:
        """Make all hosts cache the image of the servers, as the aggregate action does."""
        everywhere = Aggregate(1, new_uuid(), name, tuple(host.name for host in self.hosts))
        self.conductor.operations.image_caching.cache(everywhere, [IMAGE.id], asker("req-cache"), 2)

    def offload(self, uuid: str) -> None:
        self.conductor.operations.shelving.offload(uuid, asker("req-offload"))

    def unshelve(self, uuid: str, host: str | None = None) -> None:
        self.conductor.operations.shelving.unshelve(uuid, asker("req-unshelve"), host=host)

    def _registered(self, image_id: str, uuid: str, **properties: str) -> Callable[[], None]:
        images = self.images
        assert images is not None
        image = NewImage(image_id, "image", properties={"instance_uuid": uuid, **properties})
        return lambda: images.create(image)

    def rebuild(self, uuid: str, image: Image = IMAGE, *, user_data: str | None = None, **values: Any) -> None:
        instance = self.instance(uuid)
        with self.database.read() as connection:
            request = request_specs.get_many(connection, [instance])[uuid]
        self.conductor.operations.rebuilds.rebuild(
            uuid,
            instance.flavor,
            request,
            image,
            asker("req-rebuild"),
            user_data=user_data or request.user_data,
            key=request.key,
            values=values,
        )

    def evacuate(self, uuid: str, host: str | None = None, *, forced: bool = False, stops: bool = False) -> None:
        evacuations = self.conductor.operations.evacuations
        evacuations.begin(uuid, self.instance(uuid).host, asker("req-evacuate"), host=host, forced=forced, stops=stops)

    def abort(self, uuid: str) -> None:
        if (migration := self.open_migration(uuid)) is not None:
            self.conductor.operations.live_migrations.abort(migration, asker("req-abort"), OPEN)

    def force_complete(self, uuid: str) -> None:
        if (migration := self.open_migration(uuid)) is not None:
            self.conductor.operations.live_migrations.force_complete(migration, asker("req-force"), OPEN)

    def open_migration(self, uuid: str) -> ServerMigration | None:
        with self.database.read() as connection:
            return server_migrations.find_open(connection, uuid)

    def confirm(self, uuid: str) -> None:
        self.conductor.operations.moves.confirm_resize(uuid, asker("req-confirm"))

    def revert(self, uuid: str) -> None:
        self.conductor.operations.moves.revert_resize(uuid, asker("req-revert"))

    def work_off(self, rounds: int = 30) -> None:
        """Run all pending work, and retry workflows whose step raised an unexpected error."""
        for _ in range(rounds):
            self.bus.run()
            self.conductor.runner.retry_broken()
        self.bus.run()

    def instance(self, uuid: str) -> Instance:
        with self.database.read() as connection:
            return instances.get(connection, uuid)

    def interfaces(self, uuid: str) -> NetworkInfo:
        """Return the cached interfaces of a server."""
        with self.database.read() as connection:
            return instance_networks.info_of(connection, uuid)

    def hear(self, event: Mapping[str, str]) -> None:
        """Take an event of the network service."""
        name = NetworkEventName(event["name"])
        status = event.get("status", "completed")
        heard = NetworkEvent(name, event["server_uuid"], event.get("tag", ""), status)
        self.conductor.operations.external_events.take([heard])

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
        """Run the periodic lease renewal of the process."""
        keep_alive(self.conductor, self.bus, AS_BIG_AS_IT_IS, self.announce).renew()

    def announce(self) -> None:
        """Make the agents register with the control process (again)."""
        start_agents(self.agents, self.bus)

    def reconnect(self) -> None:
        """Make the unreachable hosts reachable; their agents register again."""
        back, self.bus.cut_off = self.bus.cut_off, set()
        self.bus.muted.clear()
        start_agents([Agent(name, self.drivers[name], self.bus) for name in sorted(back)], self.bus)

    def check(self) -> dict[str, str]:
        """Assert that no work is pending and that database, guests and mirror agree. Returns uuid → vm_state."""
        with self.database.read() as connection:
            states = check_world(connection, guests_on_disk(self.folder / "hypervisors"))
            check_guests(connection, self.folder / "hypervisors")
            if self.images is not None:
                check_images(connection, self.images.all(), self.folder / "hypervisors")
        assert not self.mirror.assumed()
        assert not self.conductor.runner.known
        assert not self.conductor.runner.waits_for_agents
        return states

    def restart(self, bus: Any = None, database: Database | None = None, **changed: Any) -> "Cell":
        """Return a new process on the same files. The old process is not shut down."""
        hosts = tuple(replace(host, **changed) for host in self.hosts)
        database = database or Database(str(self.database.url))
        return start_cell(self.folder, hosts, bus=bus, database=database, images=self.images, neutron=self.neutron)


def start_cell(
    folder: Path,
    hosts: tuple[SimulatedHost, ...],
    *,
    bus: Any = None,
    database: Database | None = None,
    engine: Any = None,
    driver: OutsideDriver | None = None,
    max_attempts: int = 3,
    counts_failed_builds: bool = True,
    piece: int = 100,
    lease: Lease | None = None,
    limits: Limits = NO_LIMITS,
    config: SchedulerConfig | None = None,
    max_tries: int = MAX_TRIES,
    pause_s: Callable[[int], float] = lambda _tries: 0.0,
    connect: Connect | None = None,
    images: FolderImages | None = None,
    neutron: FakeNeutron | None = None,
    adapt: Callable[[Settings], Settings] = lambda settings: settings,
) -> Cell:
    """Start the core of a control process, with the production wiring.

    ``images``: the image service, if the cloud has one. ``neutron``: the network service, which sends this process its
    events. ``adapt``: changes the settings.
    """
    database = database or Database(f"sqlite:///{folder / 'kilonova.db'}")
    config = replace(config or SchedulerConfig(), max_attempts=max_attempts)
    settings = Settings(
        DatabaseSettings(str(database.url)),
        fake=FakeSettings(state_dir=folder / "hypervisors"),
        compute=AS_BIG_AS_IT_IS,
        scheduler=config,
        operator=OperatorSettings(decision_retention=1000),
        conductor=ConductorSettings(
            lease_time_s=host_agents.LEASE.total_seconds(),
            consecutive_build_service_disable_threshold=10 if counts_failed_builds else 0,
        ),
    )
    (folder / "hypervisors").mkdir(exist_ok=True)
    parts = Parts(
        rules=Rules(engine or build_engine(config), driver),
        bus=bus or ManualBus(),
        connect=connect,
        lease=lease,
        limits=limits,
        rng=np.random.default_rng(1),
        piece=piece,
        pause_s=pause_s,
        max_tries=max_tries,
        image_keeper=images,
        transfers=images,
        network=neutron,
    )
    started = ProcessParts()
    with started.stopped_on_failure():
        core = start_core(adapt(settings), database, hosts, started, parts)
    drivers = {agent.host: agent.driver for agent in core.agents}
    parts_of_it = core.bus, core.mirror, core.claimer, core.conductor, drivers, core.agents
    cell = Cell(folder, hosts, database, *parts_of_it, images, core.image_remover, neutron)
    if neutron is not None:
        neutron.send_events = cell.hear
    return cell


def new_cell(template: Path, folder: Path, *hosts: SimulatedHost, **options: Any) -> Cell:
    """Start a cell on a new database."""
    shutil.copy(template, folder / "kilonova.db")
    return start_cell(folder, hosts, **options)


def host(name: str, **facts: Any) -> SimulatedHost:
    """Return a host, by default with room for four small servers."""
    return SimulatedHost(name, **{"vcpus": 4, "memory_mib": 4096, "disk_gib": 100, **facts})


#: Type of the fixture ``cell_of``: takes hosts and the options of :func:`start_cell`.
NewCell = Callable[..., Cell]
#: A cell and the uuid of its running server.
Running = tuple[Cell, str]


def networks(
    *ids: str, ports: Mapping[str, str] = MappingProxyType({}), address: str | None = None, demands: bool = False
) -> NetworkRequest:
    """Return the request of an interface on each network. ``ports``: network → port of the user.

    ``demands``: the ports may require something of their host.
    """
    asked = tuple(
        RequestedNetwork(network_id=each, port_id=ports.get(each), address=address, demands=demands) for each in ids
    )
    return NetworkRequest(mode=NetworkMode.LISTED, networks=asked)


def lines_about(uuid: str, messages: Iterable[str]) -> list[str]:
    """Return the log lines about a server, without its name. ``messages``: of the log."""
    return [line.removeprefix(f"Server {uuid} ") for line in messages if line.startswith(f"Server {uuid} ")]
