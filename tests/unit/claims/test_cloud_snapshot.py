# SPDX-License-Identifier: Apache-2.0
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kilonova.claims.cloud_snapshot import CloudSnapshot, cloud_snapshot
from kilonova.cli.wiring.rules import build_engine
from kilonova.db import instances, services
from kilonova.mirror.mirror import MirrorCopy
from kilonova.model.ability import Ability
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.server_migration import MoveKind
from kilonova.scenario.model import DEFAULT_CAPABILITIES
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.settings import SchedulerConfig
from support.cell import BIGGER, Cell, NewCell, host

LIVE, COLD = MoveKind.LIVE_MIGRATE, MoveKind.COLD_MIGRATE
NOT_LIVE = replace(DEFAULT_CAPABILITIES, abilities=tuple(sorted(set(Ability) - {Ability.LIVE_MIGRATE})))
ENGINE = build_engine(SchedulerConfig())


def snapshot(cell: Cell, engine: Engine = ENGINE, **options: Any) -> CloudSnapshot:
    return cloud_snapshot(cell.database, cell.mirror, engine, **options)


def test_a_snapshot_is_of_the_mirror_and_the_database(cell_of: NewCell) -> None:
    cell = cell_of(host("a"), host("b"))
    group = cell.add_group("anti-affinity")
    image = Image("70a599e0-31e7-49b7-b260-868f441e862b", "cirros", properties={"os_distro": "debian"})
    (one,) = cell.boot(requested_host="a", group=group, image=image)
    (two,) = cell.boot(requested_host="b", group=group, hints={"different_host": (one,)})
    cell.work_off()
    taken = snapshot(cell)
    cloud, table = taken.cloud, cell.mirror.hosts()
    assert taken.seq == cell.mirror.seq
    assert {uuid: cloud.hosts.hosts[server.row] for uuid, server in cloud.servers.items()} == {one: "a", two: "b"}
    assert np.array_equal(cloud.hosts.used, table.used)
    assert dict(cloud.groups[group].hosts) == {"a": 1, "b": 1}
    first, second = cloud.servers[one], cloud.servers[two]
    assert first.allocations == {table.uuids[first.row]: {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}}
    assert (first.disk_gib, first.memory_gib, first.hindrances, first.locked) == (1, 0.5, {}, False)
    assert (first.copied_gib(LIVE), first.copied_gib(COLD)) == (1.5, 1)
    assert (first.named_servers, second.named_servers) == (frozenset(), {one})
    cloud.take_off(first)
    cloud.take_off(second)
    assert not cloud.hosts.used.any()
    assert not cloud.hosts.num_instances.any()
    assert not cloud.hosts.guests.with_image_property("os_distro", "debian").any()
    assert cloud.groups[group].hosts == {}
    assert cell.mirror.hosts().used.any(), "the mirror does not change"


def test_a_decision_on_the_snapshot_is_that_of_the_claim(cell_of: NewCell) -> None:
    cell = cell_of(host("a"), host("b", vcpus=2), host("c", vcpus=8), engine=ENGINE)
    (uuid,) = cell.boot(requested_host="a", flavor=BIGGER)
    cell.work_off()
    cloud = snapshot(cell).cloud
    ranked = cloud.decide(cloud.servers[uuid], LIVE).ranked
    cell.live_migrate(uuid)
    cell.work_off()
    assert cell.instance(uuid).host == ranked[0].host
    cloud.move(cloud.servers[uuid], ranked[0].row)
    assert np.array_equal(cloud.hosts.used, cell.mirror.hosts().used)


def test_hindrances_follow_the_table_of_states_and_the_abilities_of_hosts(cell_of: NewCell) -> None:
    cell = cell_of(host("a"), host("b"), host("fixed", capabilities=NOT_LIVE))
    (stopped,), (moved,), (locked,) = (cell.boot(requested_host="a") for _ in range(3))
    (fixed,), (busy,) = (cell.boot(requested_host="fixed") for _ in range(2))
    cell.work_off()
    cell.power(stopped, "stop")
    cell.migrate(moved)
    cell.work_off()
    cell.database.write(lambda tx: instances.change(tx, locked, locked_by="owner"))
    cell.power(busy, "stop")
    servers = snapshot(cell).cloud.servers
    assert servers[stopped].hindrances == {LIVE: "a server with the state stopped cannot be moved in this way"}
    assert set(servers[moved].hindrances) == {LIVE, COLD}
    assert (servers[locked].locked, servers[locked].hindrances) == (True, {})
    assert servers[busy].hindrances == dict.fromkeys((LIVE, COLD), "the server has the task powering-off")
    assert servers[fixed].hindrances == {LIVE: "the server's host lacks the ability live-migrate"}


def test_a_host_that_is_down_can_move_nothing(cell_of: NewCell) -> None:
    cell = cell_of(host("a"))
    (uuid,) = cell.boot()
    cell.work_off()
    cell.database.write(lambda tx: services.declare_down(tx, ["a"]))
    found = snapshot(cell).cloud.servers[uuid].hindrances
    assert found == dict.fromkeys((LIVE, COLD), "the compute service of the server's host is down")


def test_only_some_hosts_are_loaded_with_the_members_of_their_groups(cell_of: NewCell) -> None:
    cell = cell_of(host("a"), host("b"))
    group = cell.add_group("anti-affinity")
    (one,), (two,) = (cell.boot(requested_host=name, group=group) for name in "ab")
    (other,) = cell.boot(requested_host="b")
    cell.work_off()
    assert set(snapshot(cell, on_hosts={"a"}).cloud.servers) == {one, two}
    assert set(snapshot(cell, on_hosts={"b"}).cloud.servers) == {one, two, other}
    assert snapshot(cell, on_hosts=()).cloud.servers == {}


def test_contradictory_device_options_are_a_hindrance(cell_of: NewCell) -> None:
    cell = cell_of(host("a"))
    (uuid,) = cell.boot(flavor=Flavor("9", "odd", 1, 512, 1))
    cell.work_off()
    odd = Flavor("9", "odd", 1, 512, 1, extra_specs={"hw:numa_nodes": "2"})
    cell.database.write(lambda tx: instances.change(tx, uuid, flavor=odd))
    found = snapshot(cell).cloud.servers[uuid].hindrances
    assert set(found) == {LIVE, COLD}
    assert "hw:numa_nodes" in found[LIVE]


@dataclass
class BusyMirror:
    """A mirror that is always one commit ahead of the reader."""

    cell: Cell
    uuid: str

    def catch_up(self) -> None:
        self.cell.database.write(lambda tx: instances.log(tx, self.uuid))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.cell.mirror, name)

    def copy(self) -> MirrorCopy:
        return self.cell.mirror.copy()


def test_a_snapshot_between_endless_commits_is_of_one_number(cell_of: NewCell) -> None:
    cell = cell_of(host("a"), host("b"))
    (uuid,) = cell.boot()
    cell.work_off()
    mirror: Any = BusyMirror(cell, uuid)
    before = cell.mirror.seq
    taken = cloud_snapshot(cell.database, mirror, ENGINE)
    assert before < taken.seq < cell.mirror.seq
    assert np.array_equal(taken.cloud.hosts.used, cell.mirror.hosts().used)
    assert set(taken.cloud.servers) == {uuid}
