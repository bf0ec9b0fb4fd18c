# SPDX-License-Identifier: Apache-2.0
from random import Random

import msgspec
import pytest

from kilonova.model.server_group import GroupView
from kilonova.model.server_migration import MoveKind
from kilonova.planning.cloud import Cloud, DoesNotFitError
from support.planned_clouds import drawn_cloud, filled, random_server

COLD = MoveKind.COLD_MIGRATE


def some_cloud(seed: int = 3) -> Cloud:
    chance = Random(seed)
    return filled(chance, drawn_cloud(chance, 5), 20)


def test_a_move_holds_both_hosts_until_it_ends() -> None:
    cloud = some_cloud()
    server = next(each for each in cloud.servers.values() if cloud.decide(each, COLD).ranked)
    source, row = server.row, cloud.decide(server, COLD).ranked[0].row
    before = cloud.hosts.num_instances.tolist()
    begun = cloud.begin_move(server, cloud.destination(server, row), COLD)
    assert cloud.row_of(server) == source
    assert cloud.hosts.num_instances.sum() == sum(before) + 1
    assert cloud.hosts.num_io_ops.tolist() == [int(each in {source, row}) for each in range(5)]
    cloud.end_move(begun)
    assert cloud.row_of(server) == row
    assert not cloud.hosts.num_io_ops.any()
    assert cloud.hosts.instance_rows[server.uuid] == row
    assert server in cloud.servers_on(row)
    assert server not in cloud.servers_on(source)


def test_a_server_of_a_group_is_not_counted_against_itself() -> None:
    cloud = some_cloud()
    server = next(iter(cloud.servers.values()))
    host = cloud.hosts.hosts[server.row]
    cloud.groups["own"] = GroupView("own", "affinity", 1, {host: 1})
    mine = msgspec.structs.replace(server, group_uuid="own")
    request = cloud.request(mine, COLD, leaving=["node9"], to="node3")
    assert request.group is not None
    assert request.group.hosts == {}
    assert (request.ignore_hosts, request.requested_host) == ({"node9", host}, "node3")


def test_devices_that_do_not_fit_are_an_error() -> None:
    chance = Random(5)
    drawn = drawn_cloud(chance, 6)
    cloud = drawn.empty()
    servers = (random_server(chance, f"s{number}", [], drawn) for number in range(100))
    server = next(each for each in servers if each.needs.pci)
    row = next(row for row in range(6) if not cloud.hosts.devices_of(row).pools)
    with pytest.raises(DoesNotFitError):
        cloud.place(server, row)
    assert server.uuid not in cloud.servers
