# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from kilonova.planning.forecast.host_events import HostEvents, with_failures
from kilonova.planning.forecast.scenario import Exponential, Failures, ScenarioError
from kilonova.records import replace
from support.forecasts import forecast_of, hosts, scenario, trace


def test_new_hosts_are_empty_copies() -> None:
    asked = scenario(growth=[{"at": "5d", "hosts": 2, "like": "node0"}])
    given = trace(*[(day, 99, "large") for day in (1, 2, 3, 6, 7, 8, 9, 10)])
    found = forecast_of(asked, hosts(1), **given)
    assert found.outcomes[0].first_row.tolist() == [0, 0, -1, 1, 2, 1, 2, -1]
    assert [each.hosts for each in found.outcomes[0].intervals] == [3, 3, 3]


def test_growth_comes_again_and_again() -> None:
    asked = scenario(growth=[{"every": "10d", "hosts": 1, "like": "node1"}])
    assert [each.hosts for each in forecast_of(asked, hosts(2)).outcomes[0].intervals] == [2, 3, 4]


@pytest.mark.parametrize(("like", "text"), [("odd", "unknown host 'odd'"), ("node0", "has the name 'node0-copy1'")])
def test_growth_needs_a_known_host_and_new_names(like: str, text: str) -> None:
    start = hosts(2)
    start = replace(start, hosts=("node0", "node0-copy1"))
    with pytest.raises(ScenarioError, match=text):
        forecast_of(scenario(growth=[{"at": "5d", "hosts": 1, "like": like}]), start)


def failures(mtbf: str, *, grown: HostEvents | None = None) -> HostEvents:
    asked = Failures(mtbf, Exponential("1d"))
    return with_failures(grown or HostEvents(), asked, 100, 365 * 86_400.0, np.random.default_rng(3))


def test_hosts_fail_at_their_rate_and_only_while_they_are_up() -> None:
    found = failures("73d")
    assert len(found.failing) == pytest.approx(500, rel=0.1)
    for row in range(100):
        mine = found.failing == row
        assert (found.failed_at[mine][1:] > found.repaired_at[mine][:-1]).all()


def test_hosts_that_do_not_exist_yet_do_not_fail() -> None:
    grown = HostEvents(grown_at=np.array([200 * 86_400.0]), sizes=(1000,))
    found = failures("365d", grown=grown)
    assert (found.failing[found.failed_at < 200 * 86_400.0] < 100).all()
    assert (found.failing >= 100).sum() > 300


def test_too_many_failures_are_refused() -> None:
    with pytest.raises(ScenarioError, match=r"failures.mtbf: there may be at most"):
        failures("1s")
