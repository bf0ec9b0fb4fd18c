# SPDX-License-Identifier: Apache-2.0
from typing import ClassVar

import pytest

from kilonova.model.request_spec import RequestSpec
from kilonova.planning.forecast.run import DecisionsDiffer
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_table import BoolArray, HostTable
from support.forecasts import forecast_of, hosts, scenario, trace

REPAIR = {"distribution": "fixed", "value": "2d"}


def test_servers_that_leave_make_room() -> None:
    given = trace((0, 3, "large"), (1, 9, "large"), (2, 9, "large"), (3, 9, "large"))
    found = forecast_of(scenario(), hosts(1), **given)
    assert found.outcomes[0].first_row.tolist() == [0, 0, -1, 0]
    report = found.report()["policies"][0]
    assert report["refused_by"] == {"Placement: VCPU": 1}
    assert report["refused_flavors"] == {"large": 1}
    assert report["first_refused_days"] == {"large": 2.0}
    assert (report["accepted"], report["left"], report["checked"]) == (3, 3, 4)
    assert report["lasts_days"] == 0.0


def test_hosts_that_fail_are_emptied_and_come_back() -> None:
    asked = scenario(
        seed=3,
        failures={"mtbf": "20d", "repair": REPAIR},
        arrivals=[{"count": 6, "ends": "1s", "flavors": {"large": 1}}],
    )
    report = forecast_of(asked, hosts(4)).report()["policies"][0]
    assert report["failures"] > 2
    assert report["evacuated"] > 0
    assert report["moves"] == report["evacuated"]
    assert report["intervals"][-1]["servers"] == 6


def test_servers_stay_on_failed_hosts_if_they_are_not_evacuated() -> None:
    asked = scenario(
        failures={"mtbf": "20d", "repair": REPAIR, "evacuate": False},
        arrivals=[{"count": 6, "ends": "1s", "flavors": {"large": 1}}],
    )
    report = forecast_of(asked, hosts(4)).report()["policies"][0]
    assert report["failures"] > 2
    assert (report["evacuated"], report["left_over"], report["intervals"][-1]["servers"]) == (0, 0, 6)


def test_a_full_cloud_leaves_servers_over() -> None:
    asked = scenario(
        failures={"mtbf": "10d", "repair": REPAIR}, arrivals=[{"count": 4, "ends": "1s", "flavors": {"large": 1}}]
    )
    report = forecast_of(asked, hosts(2)).report()["policies"][0]
    assert report["left_over"] > 0
    assert report["intervals"][-1]["servers"] == 4


def test_resizes_move_servers_to_another_flavor() -> None:
    after = {"distribution": "fixed", "value": "3d"}
    asked = scenario(
        arrivals=[
            {
                "count": 5,
                "ends": "1s",
                "flavors": {"small": 1},
                "resizes": {"share": 1, "after": after, "flavors": {"large": 1}},
            }
        ]
    )
    report = forecast_of(asked, hosts(4)).report()["policies"][0]
    assert report["resized"] == 5
    assert report["intervals"][0]["usage"]["VCPU"]["used"] == 20 / 32
    small = forecast_of(asked, hosts(1)).report()["policies"][0]
    assert (small["resized"], small["resizes_refused"]) == (0, 5), "a server may not stay on its host"


def test_servers_of_a_group_keep_apart() -> None:
    group = {"policy": "anti-affinity", "size": 3}
    asked = scenario(arrivals=[{"count": 6, "flavors": {"small": 1}, "group": group}])
    found = forecast_of(asked, hosts(3)).outcomes[0].first_row.reshape(2, 3)
    assert [sorted(each) for each in found.tolist()] == [[0, 1, 2]] * 2
    refused = forecast_of(asked, hosts(2)).report()["policies"][0]
    assert refused["refused_by"] == {"ServerGroupAntiAffinityFilter": 2}


class Lying:
    """Plug-in filter that does not declare that its verdict depends on the hosts' servers."""

    reason = "lies"
    run_once = runs_on_rebuild = True
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        del spec
        return hosts.num_instances < 2


def test_a_decision_that_differs_from_the_whole_engine_s_ends_the_run() -> None:
    asked = scenario(arrivals=[{"count": 30, "flavors": {"small": 1}}])
    with pytest.raises(DecisionsDiffer, match="a decision differs"):
        forecast_of(asked, hosts(3), Engine(filters=(Lying(),)))


def test_a_cloud_without_hosts_refuses_all_servers() -> None:
    report = forecast_of(scenario(arrivals=[{"count": 3, "flavors": {"small": 1}}]), hosts(0)).report()["policies"][0]
    assert report["refused"] == 3
