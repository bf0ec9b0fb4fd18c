# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.cli.scenarios.settings import play_with_settings, settings_of
from kilonova.errors import ConfigurationError
from kilonova.scenario.load import scenario_of
from kilonova.scenario.outcome import Landing
from kilonova.scenario.run import Played, report

FLAVOR = {"name": "half", "vcpus": 1, "memory_mib": 1000}


def played(*servers: dict[str, Any], **scenario: Any) -> tuple[Played, ...]:
    content = {
        "name": "here",
        "hosts": [{"name": "node", "count": 2, "memory_mib": 2512}],
        "flavors": [FLAVOR],
        "images": [{"name": "disk"}],
        "servers": [{"flavor": "half", "image": "disk", **server} for server in servers],
        **scenario,
    }
    return play_with_settings(scenario_of(content, "here"))


def landings(*servers: dict[str, Any], **scenario: Any) -> list[Landing]:
    return [server.landing for server in played(*servers, **scenario)]


def test_each_server_counts_for_the_next() -> None:
    assert [landing.host for landing in landings({"name": "s", "count": 2}, {"name": "t"}, {"name": "u"})] == [
        "node1",
        "node2",
        "node1",
        "node2",
    ]
    assert landings({"name": "s", "count": 4}, {"name": "late"})[-1] == Landing(None, "Placement: MEMORY_MB")


def test_servers_of_one_request_are_placed_together_or_not_at_all() -> None:
    found = landings({"name": "s", "count": 5}, {"name": "after", "count": 4})
    assert found[:5] == [Landing(None, "Placement: MEMORY_MB")] * 5
    assert None not in [landing.host for landing in found[5:]]


def test_a_host_that_fails_a_spawn_is_left_out_and_gets_its_room_back() -> None:
    hosts = [{"name": "bad", "memory_mib": 1512, "failing_spawns": 1}, {"name": "good", "memory_mib": 1512}]
    first, second = played({"name": "s"}, {"name": "t"}, hosts=hosts)
    assert first.failed_on == ("bad",)
    assert first.landing == Landing("good")
    assert second.landing == Landing("bad")


def test_attempts_are_counted_and_a_forced_place_has_one() -> None:
    bad = [{"name": "bad", "count": 4, "failing_spawns": -1}]
    retried, forced = played({"name": "s"}, {"name": "f", "zone": "nova:bad4"}, hosts=bad)
    assert retried.failed_on == ("bad1", "bad2", "bad3")
    assert forced.failed_on == ("bad4",)
    assert {retried.landing, forced.landing} == {Landing(None, "spawn")}
    once = played({"name": "s"}, hosts=bad, options={"scheduler": {"max_attempts": 1}})
    assert once[0].failed_on == ("bad1",)


def test_the_last_host_that_fails_leaves_none() -> None:
    (only,) = played({"name": "s"}, hosts=[{"name": "bad", "failing_spawns": -1}])
    assert only.landing == Landing(None, "tried_hosts")
    assert len(only.decisions) == 2


def test_the_default_zone_and_the_allocation_ratio_are_the_operators() -> None:
    zoned = [{"name": "a", "zone": "z", "hosts": ["node2"]}]
    options = {"DEFAULT": {"default_schedule_zone": "z", "ram_allocation_ratio": 0.5}}
    found = landings({"name": "s"}, {"name": "t"}, aggregates=zoned, options=options)
    assert found == [Landing("node2"), Landing(None, "Placement: MEMORY_MB")]


def test_no_hosts_is_no_crash() -> None:
    (only,) = landings({"name": "s"}, hosts=0)
    assert only.host is None


def test_an_option_that_nothing_reads_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown option \[filter_scheduler\] enabled_filter\."):
        settings_of(scenario_of({"name": "n", "options": {"filter_scheduler": {"enabled_filter": "X"}}}, "here"))


def test_the_report_tells_who_removed_whom() -> None:
    content = {
        "name": "two",
        "about": "Two\nhosts.",
        "hosts": [{"name": "small", "vcpus": 1}, {"name": "big", "vcpus": 2}],
        "flavors": [{"name": "pair", "vcpus": 2}],
        "images": [{"name": "disk"}],
        "servers": [{"name": "s", "flavor": "pair", "image": "disk", "expect": ["big"]}],
    }
    scenario = scenario_of(content, "here")
    assert report(scenario, play_with_settings(scenario)) == (
        "two: Two hosts.\n\ns (admin: pair, disk) -> big\n"
        "    Placement: VCPU: 2 -> 1, cannot give 2 VCPU: small\n    best first: big\n"
    )
