# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.dashboard.upstream.host_map import DISABLED, DOWN, UP, HostMap, shown_aggregates
from support.dashboards import USAGE


def changed(**columns: Any) -> dict[str, Any]:
    """Return an answer with one changed host, node2."""
    return {
        "seq": 42,
        "version": "0000aaaa-2",
        "whole": False,
        "hosts": ["node2"],
        "nodes": ["node2"],
        "zones": ["nova"],
        "up": [True],
        "disabled": [True],
        "servers": [3],
        "resources": {"VCPU": {"capacity": [8], "used": [7]}, "MEMORY_MB": {"capacity": [0], "used": [0]}},
        **columns,
    }


def test_shares_and_states() -> None:
    hosts = HostMap(USAGE)
    assert hosts.state == [UP, DOWN]
    assert hosts.shares == {"VCPU": [50, 0], "MEMORY_MB": [12, -1]}
    assert hosts.total("VCPU") == (4, 16)
    assert hosts.total("PCPU") == (0, 0)
    assert hosts.classes == ["VCPU", "MEMORY_MB"]


def test_changes_are_applied_and_told() -> None:
    hosts = HostMap(USAGE)
    changes = hosts.apply(changed())
    assert changes is not None
    assert changes.as_json() == {"rows": [1], "state": [DISABLED], "columns": {"VCPU": [87], "MEMORY_MB": [-1]}}
    assert (hosts.version, hosts.seq, hosts.servers) == ("0000aaaa-2", 42, [1, 3])
    assert hosts.total("VCPU") == (11, 16)


@pytest.mark.parametrize("columns", [{"hosts": ["node3"], "nodes": ["node3"]}, {"zones": ["east"]}])
def test_another_arrangement_needs_a_new_map(columns: dict[str, Any]) -> None:
    assert HostMap(USAGE).apply(changed(**columns)) is None


def test_a_host_is_shown_in_one_aggregate() -> None:
    aggregates = [
        {"name": "east", "availability_zone": "east", "hosts": ["a", "b"]},
        {"name": "gpu", "availability_zone": None, "hosts": ["a"]},
        {"name": "fast", "availability_zone": None, "hosts": ["a"]},
    ]
    assert shown_aggregates({"aggregates": aggregates}) == {"a": "fast", "b": "east"}


def test_columns_of_the_script_group_hosts_by_zone_and_aggregate() -> None:
    columns = HostMap({**USAGE, "zones": ["west", "east"]}).as_columns({"node1": "gpu"})
    assert columns["zones"] == ["east", "west"]
    assert columns["aggregates"] == [{"zone": 0, "name": ""}, {"zone": 1, "name": "gpu"}]
    assert columns["in_aggregate"] == [1, 0]
