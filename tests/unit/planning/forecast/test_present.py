# SPDX-License-Identifier: Apache-2.0
import numpy as np

from kilonova.model.server_group import GroupView
from kilonova.planning.cloud import Cloud
from kilonova.planning.forecast.forecast import Forecast, forecast
from kilonova.planning.forecast.present import beginning_of
from kilonova.planning.forecast.run import Policy
from kilonova.planning.forecast.scenario import Fixed
from kilonova.planning.forecast.server_kinds import KindName, Kinds
from kilonova.planning.planned_server import PlannedServer
from support.forecasts import CATALOG, ENGINE, hosts, scenario

KEPT = ["keep-1", "keep-2"]


def cloud_of(*, group: bool = False) -> Cloud:
    """Return a cloud of two hosts, full but for one large server."""
    kinds = Kinds(CATALOG)
    kind = kinds.all[kinds.number(KindName("large"), "")]
    groups = {"group": GroupView("group", "anti-affinity", 1)} if group else {}
    cloud = Cloud(hosts(2), ENGINE, (), groups)
    for name, row in (("keep-1", 0), ("keep-2", 1), ("late", 1)):
        allocations = ENGINE.allocations(cloud.hosts, kind.spec, row)
        uuid = "group" if group and name in KEPT else None
        server = PlannedServer(
            uuid=name, row=row, spec=kind.spec, allocations=allocations, guest=kind.guest, group_uuid=uuid
        )
        cloud.place(server, row)
    return cloud


def forecast_of(cloud: Cloud, lifetimes: Fixed | None = None) -> Forecast:
    asked = scenario(arrivals=[{"count": 5, "begins": "15d", "flavors": {"large": 1}}])
    return forecast(
        asked,
        beginning_of(cloud, Kinds(CATALOG), lifetimes, 60, np.random.default_rng(1)),
        [Policy(name="present", engine=ENGINE)],
        clock_ns=lambda: 0,
    )


def test_present_servers_hold_their_resources_until_they_leave() -> None:
    report = forecast_of(cloud_of()).report()
    assert (report["present"], report["arrivals"]) == (3, 5)
    assert report["policies"][0]["accepted"] == 1
    found = forecast_of(cloud_of(), Fixed("5d")).report()["policies"][0]
    assert (found["accepted"], found["left"]) == (4, 3)
    assert found["intervals"][0]["usage"]["VCPU"]["used"] == 0.0


def test_the_planned_cloud_does_not_change() -> None:
    cloud = cloud_of()
    before = cloud.hosts.used.tolist()
    forecast_of(cloud, Fixed("5d"))
    assert cloud.hosts.used.tolist() == before


def test_servers_of_one_request_are_of_one_kind_and_groups_keep_their_members() -> None:
    found = forecast_of(cloud_of(group=True), Fixed("5d"))
    assert len(found.workload.kinds) == 2
    assert found.workload.servers.group[:3].tolist() == [0, 0, -1]
    assert found.workload.groups[0].hosts == {"node0": 1, "node1": 1}
