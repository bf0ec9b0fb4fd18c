# SPDX-License-Identifier: Apache-2.0
"""Differences between the places of servers and the expectations of a scenario."""

from typing import Any

import pytest

from kilonova.scenario.load import scenario_of
from kilonova.scenario.outcome import Landing, surprises

FLAVOR = {"name": "half", "vcpus": 1, "memory_mib": 1000}


@pytest.mark.parametrize(
    ("changes", "found", "expected"),
    [
        ({"expect": ["node1"]}, ["node1", "node1"], ()),
        ({"expect": ["node1"]}, ["node1", "node2"], ("s-2 is on node2, and should be on one of node1",)),
        ({}, ["node1", None], ("s-1 is on node1, and should be refused",)),
        ({"refused_by": "Other"}, [None, None], ("s-1 was refused by Rule, and should be by Other",) * 1),
        ({"expect": ["node1"]}, ["node1", None], ("s-2 was refused by Rule, and should be on one of node1",)),
        ({"expect": ["node1", "node2"], "uses": ["node2"]}, ["node1", "node1"], ("none of s is on node2",)),
        ({"expect": ["node1"]}, ["node1"], ("s-2 was not requested",)),
    ],
)
def test_surprises_are_named(changes: dict[str, Any], found: list[str | None], expected: tuple[str, ...]) -> None:
    server = {"name": "s", "flavor": "half", "image": "disk", "count": 2, **changes}
    content = {"name": "n", "hosts": 2, "flavors": [FLAVOR], "images": [{"name": "disk"}], "servers": [server]}
    landed = {f"s-{number}": Landing(host, None if host else "Rule") for number, host in enumerate(found, start=1)}
    assert surprises(scenario_of(content, "here"), landed)[: len(expected) or None] == expected


@pytest.mark.parametrize(
    ("policy", "limit", "hosts", "expected"),
    [
        ("affinity", None, ["a1", "a1"], ()),
        ("affinity", None, ["a1", "a2"], ("group g is spread over a1, a2",)),
        ("anti-affinity", None, ["a1", "a1"], ("group g has 2 servers on one host",)),
        ("anti-affinity", 2, ["a1", "a1"], ()),
        ("soft-affinity", None, ["a1", "a2"], ()),
    ],
)
def test_broken_groups_are_surprises(
    policy: str, limit: int | None, hosts: list[str], expected: tuple[str, ...]
) -> None:
    server = {"name": "s", "flavor": "half", "image": "disk", "count": 2, "group": "g", "expect": ["a1", "a2"]}
    group = {"name": "g", "policy": policy, **({"max_server_per_host": limit} if limit else {})}
    content = {
        "name": "n",
        "hosts": [{"name": "a", "count": 2}],
        "flavors": [FLAVOR],
        "images": [{"name": "disk"}],
        "groups": [group],
        "servers": [server],
    }
    landed = {f"s-{number}": Landing(host) for number, host in enumerate(hosts, start=1)}
    assert surprises(scenario_of(content, "here"), landed) == expected
