# SPDX-License-Identifier: Apache-2.0
"""The query hint. Vectors executed in Nova first, then what Nova breaks on."""

import json
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import aggregate, host, request, table

from kilonova.model.host import Capabilities
from kilonova.model.provider import Inventory
from kilonova.scheduler.filters import JsonFilter

ROOM = (Inventory("VCPU", 8), Inventory("MEMORY_MB", 1024), Inventory("DISK_GB", 200))
QEMU = Capabilities("QEMU", 6_002_000, cpu_info={"topology": {"cores": 8}}, extra={"a": 1})
HOSTS = table(host("node1", inventories=ROOM, capabilities=QEMU, num_instances=3, num_io_ops=2, host_ip="10.0.0.1"))
ENOUGH = ["=", "$free_ram_mb", 1024]
SCARCE = ["=", "$free_ram_mb", 1]


def passed(query: Any) -> bool:
    text = query if isinstance(query, str) else json.dumps(query)
    (answer,) = JsonFilter().passes(HOSTS, request(hints={"query": (text,)})).tolist()
    return bool(answer)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (["and", [">=", "$free_ram_mb", 1024], [">=", "$free_disk_mb", 204800]], True),
        (["<", "$free_ram_mb", 1024], False),
        (["=", "$stats.a", 1], True),
        (["=", "$nope", 1], False),
        (["=", "$free_ram_mb"], False),
        (["=", "$free_ram_mb", 1024, 1024], True),
        (["=", "$free_ram_mb", 1024, 1], False),
        (["in", "$hypervisor_type", "QEMU", "KVM"], True),
        (["in", "$hypervisor_type", "KVM", "xen"], False),
        (["not", ENOUGH], False),
        (["not", SCARCE, ENOUGH], True),
        (["or", SCARCE, ENOUGH], True),
        (["or", SCARCE, SCARCE], False),
        ([], True),
        ("", True),
    ],
)
def test_queries_are_answered_as_executed_in_nova(query: Any, expected: bool) -> None:
    assert passed(query) is expected


@pytest.mark.parametrize(
    "query",
    [
        ["in", "$hypervisor_type", ["QEMU", "KVM"]],
        ["like", "$hypervisor_type", "QEMU"],
        ["and", ENOUGH, ["like", 1, 1]],
        [1, 2],
        [["=", 1, 1]],
        "no json",
        '"text"',
        "5",
        "null",
        '{"=": ["$free_ram_mb", 1024]}',
        ["=", {"a": 1}, {"a": 1}],
        "[" * 100_000,
        json.dumps(ENOUGH).replace('"=", ', '["=", ' * 60, 1) + "]" * 60,
    ],
)
def test_a_query_without_sense_lets_no_host_pass(query: Any) -> None:
    assert passed(query) is False


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (["<", "$hypervisor_type", 5], False),
        ([">", "$host", 5], False),
        (["=", "$host", "node1"], True),
        (["=", "$nodename", "node1", "$hypervisor_hostname"], True),
        (["<", "$host", "node2"], True),
        (["=", "$host_ip", "10.0.0.1"], True),
        (["=", "$free_ram_mb", "1024"], False),
        (["=", "$cpu_info.topology.cores", 8], True),
        (["=", "$cpu_info.topology.cores.more", 8], False),
        (["=", "$stats.io_workload", 2], True),
        (["=", "$stats.num_instances", "$num_instances", 3], True),
        (["=", "$free_ram_mb.more", 1024], False),
        (["=", "$host.more", "node1"], False),
        (["=", "$service.disabled", False], True),
        (["=", "$service.disabled", True], False),
        (["=", "$_hosts", 1], False),
        (["and", "$aggregates"], True),
        (["and", "$supported_instances"], False),
        (["and", "$host"], True),
        (["not", "$host"], False),
        (["and", ["not", ENOUGH]], False),
        (["and", []], True),
        (["=", "", None, "a", "a"], True),
        (["and"], True),
        (["or"], False),
        (["not"], False),
        ("{}", True),
        ("0", True),
    ],
)
def test_attributes_and_corners(query: Any, expected: bool) -> None:
    hosts = table(host("node1", inventories=ROOM), aggregates=(aggregate(1, ("node1",)),))
    if query == ["and", "$aggregates"]:
        assert JsonFilter().passes(hosts, request(hints={"query": (json.dumps(query),)})).tolist() == [expected]
    else:
        assert passed(query) is expected


def test_no_hint_and_several_values() -> None:
    assert JsonFilter().passes(HOSTS, request()).tolist() == [True]
    assert JsonFilter().passes(HOSTS, request(hints={"query": ()})).tolist() == [True]
    assert JsonFilter().passes(HOSTS, request(hints={"query": ("=", "$host")})).tolist() == [False]


def test_every_host_is_judged_by_its_own_facts() -> None:
    hosts = table(
        host("a", num_instances=1, capabilities=QEMU),
        host("b", num_instances=5, capabilities=QEMU),
        host("c", num_instances=1, capabilities=Capabilities("xen")),
    )
    query = json.dumps(["and", ["<", "$num_instances", 3], ["=", "$hypervisor_type", "QEMU"]])
    assert JsonFilter().passes(hosts, request(hints={"query": (query,)})).tolist() == [True, False, False]
