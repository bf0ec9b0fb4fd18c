# SPDX-License-Identifier: Apache-2.0
from kilonova.cli.wiring.rules import build_engine
from kilonova.scheduler.settings import SchedulerConfig
from support.forecasts import forecast_of, hosts, scenario


def test_policies_see_the_same_servers() -> None:
    packing = build_engine(
        SchedulerConfig(ram_weight_multiplier=-1.0, cpu_weight_multiplier=-1.0, disk_weight_multiplier=-1.0)
    )
    spreading = build_engine(SchedulerConfig())
    asked = scenario(arrivals=[{"count": 8, "flavors": {"small": 1}}])
    found = forecast_of(asked, hosts(4), spreading, packing)
    assert [len(set(each.first_row.tolist())) for each in found.outcomes] == [4, 1]
    deviations = [each["intervals"][-1]["usage"]["VCPU"]["deviation"] for each in found.report()["policies"]]
    assert deviations[0] == 0.0 < deviations[1]


def test_a_random_choice_among_the_best_hosts_is_the_same_for_the_same_seed() -> None:
    engine = build_engine(SchedulerConfig(host_subset_size=3))
    asked = scenario(arrivals=[{"count": 30, "flavors": {"small": 1}}])
    rows = [forecast_of(asked, hosts(10), engine).outcomes[0].first_row.tolist() for _ in range(2)]
    assert rows[0] == rows[1]
    assert len(set(rows[0])) == 10
