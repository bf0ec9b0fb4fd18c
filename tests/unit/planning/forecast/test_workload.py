# SPDX-License-Identifier: Apache-2.0
import numpy as np

from kilonova.planning.forecast.host_events import HostEvents
from kilonova.planning.forecast.server_kinds import KindName, Kinds
from kilonova.planning.forecast.workload import NONE, Event, Servers, workload
from support.forecasts import CATALOG, scenario


def test_events_of_one_moment_free_resources_before_they_take_them() -> None:
    kinds = Kinds(CATALOG)
    small = kinds.number(KindName("small"), "")
    made = Servers.of(np.array([0.0, 5.0, 9.0]), np.array([5.0, np.inf, 9e9]), np.array([small] * 3))
    made.resized_at[1], made.resized_to[1] = 7.0, small
    hosts = HostEvents(np.array([4]), np.array([5.0]), np.array([7.0]), grown_at=np.array([5.0]), sizes=(9,))
    found = workload(scenario(), kinds, hosts, np.random.default_rng(1), [made])
    events = zip(found.time.tolist(), found.event.tolist(), found.subject.tolist(), strict=True)
    listed = [(at, Event(event).name, subject) for at, event, subject in events]
    assert listed == [
        (0.0, "ARRIVE", 0),
        (5.0, "LEAVE", 0),
        (5.0, "GROW", 0),
        (5.0, "FAIL", 4),
        (5.0, "ARRIVE", 1),
        (7.0, "REPAIR", 4),
        (7.0, "RESIZE", 1),
        (9.0, "ARRIVE", 2),
    ]


def test_present_servers_do_not_arrive() -> None:
    kinds = Kinds(CATALOG)
    small = kinds.number(KindName("small"), "")
    present = Servers.of(np.zeros(2), np.array([3.0, np.inf]), np.array([small] * 2))
    asked = scenario(arrivals=[{"count": 1, "flavors": {"small": 1}}])
    found = workload(asked, kinds, HostEvents(), np.random.default_rng(1), present=present)
    assert [Event(each).name for each in found.event.tolist()] == ["LEAVE", "ARRIVE"]
    assert (found.subject.tolist(), found.present) == ([0, 2], 2)


def test_a_stream_draws_kinds_by_share_and_fills_groups() -> None:
    group = {"policy": "anti-affinity", "size": 4, "max_server_per_host": 2}
    asked = scenario(
        arrivals=[
            {"count": 1000, "flavors": {"small": 3, "large": 1}, "images": {"tiny": 1}, "projects": {"a": 1, "b": 1}},
            {"count": 10, "flavors": {"small": 1}, "group": group},
        ]
    )
    found = workload(asked, Kinds(CATALOG), HostEvents(), np.random.default_rng(1))
    names = [found.kinds[number].name for number in found.servers.kind[:1000].tolist()]
    assert 700 < sum(name.flavor == "small" for name in names) < 800
    assert 450 < sum(name.project == "a" for name in names) < 550
    assert found.servers.group[:1000].tolist() == [NONE] * 1000
    assert found.servers.group[1000:].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert [each.max_server_per_host for each in found.groups] == [2, 2, 2]
