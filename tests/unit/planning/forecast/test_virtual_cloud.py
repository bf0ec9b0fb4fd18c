# SPDX-License-Identifier: Apache-2.0
import numpy as np

from kilonova.planning.forecast.server_kinds import KindName, Kinds
from kilonova.planning.forecast.virtual_cloud import VirtualCloud, always_up, largest_first
from kilonova.planning.forecast.workload import NONE, Servers, Workload
from kilonova.records import replace
from support.forecasts import CATALOG, ENGINE, hosts


def cloud_of(*flavors: str) -> VirtualCloud:
    kinds = Kinds(CATALOG)
    numbers = np.array([kinds.number(KindName(flavor), "") for flavor in flavors], dtype=np.int64)
    made = Servers.of(np.zeros(len(flavors)), np.full(len(flavors), np.inf), numbers)
    nothing = np.zeros(0)
    load = Workload(tuple(kinds.all), made, (), nothing, nothing.astype(np.uint8), nothing.astype(np.int64), 1.0)
    start = hosts(2)
    return VirtualCloud(start, start, ENGINE, load)


def test_a_server_takes_its_amounts_and_gives_them_back() -> None:
    cloud = cloud_of("small", "large")
    before = cloud.hosts.used.tolist()
    cloud.place(1, int(cloud.kind_of[1]), 0, None)
    assert cloud.hosts.used[0].sum() == 4 + 8192 + 40
    assert (cloud.hosts.num_instances.tolist(), cloud.row_of.tolist()) == ([1, 0], [NONE, 0])
    assert cloud.live.changes.since(0).tolist() == [0]  # type: ignore[union-attr]
    cloud.take_off(1)
    assert cloud.hosts.used.tolist() == before
    assert cloud.hosts.num_instances.tolist() == [0, 0]


def test_hosts_that_are_up_stay_up() -> None:
    start = replace(hosts(3), taken_at=1000.0, last_seen=np.array([990.0, 900.0, 1000.0]))
    found = always_up(start, 60)
    assert found.last_seen.tolist() == [np.inf, 900.0, np.inf]
    assert start.last_seen.tolist() == [990.0, 900.0, 1000.0]


def test_a_repaired_host_is_down_if_it_was_down_from_the_beginning() -> None:
    cloud = cloud_of("small")
    cloud.set_down(1, is_down=True)
    assert cloud.live.hosts.forced_down.tolist() == [False, True]
    cloud.set_down(1, is_down=False)
    assert cloud.live.hosts.forced_down.tolist() == [False, False]


def test_large_servers_are_evacuated_first() -> None:
    cloud = cloud_of("small", "large", "small", "large")
    assert largest_first(cloud.kinds, cloud.kind_of, range(4)) == [1, 3, 0, 2]
