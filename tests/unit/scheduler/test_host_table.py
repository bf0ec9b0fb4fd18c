# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import host, table


def test_records_become_columns() -> None:
    hosts = table(
        host("a", traits=frozenset({"T1"}), used={"VCPU": 2}, disabled=True, disabled_reason="broken"),
        host("b", traits=frozenset({"T1", "T2"}), instances=("i",), inventories=()),
    )
    assert len(hosts) == 2
    assert hosts.resource_classes == ("VCPU", "MEMORY_MB", "DISK_GB")
    assert hosts.capacity.tolist() == [[32, 7680, 200], [0, 0, 0]]
    assert hosts.has_trait("T1").tolist() == [True, True]
    assert hosts.has_trait("T2").tolist() == [False, True]
    assert hosts.has_trait("T3").tolist() == [False, False]
    assert hosts.instance_rows == {"i": 1}
    assert hosts.disabled_reasons == {0: "broken"}
    assert hosts.profile.tolist() == [0, 0]
    assert hosts.all_hosts.tolist() == [True, True]


def test_free_leaves_the_allocation_ratio_aside_and_may_be_negative() -> None:
    hosts = table(host("a", used={"MEMORY_MB": 8000}), host("b"))
    assert hosts.free("MEMORY_MB").tolist() == [-320, 7680]
    assert hosts.free("MEMORY_MB", np.array([1])).tolist() == [7680]
    assert hosts.free("VGPU").tolist() == [0, 0]
    hosts.used[1] += 1
    assert hosts.free("MEMORY_MB").tolist() == [-320, 7679]


@pytest.mark.parametrize(
    ("name", "node", "expected"),
    [
        ("A", None, [True, True, False]),
        ("a", "n2", [False, True, False]),
        ("a", "N2", [False, False, False]),
        (None, "n2", [False, True, True]),
        (None, None, [True, True, True]),
        ("x", None, [False, False, False]),
    ],
)
def test_rows_are_found_by_host_in_any_case_and_node_in_exact_case(
    name: str | None, node: str | None, expected: list[bool]
) -> None:
    hosts = table(host("a", node="n1"), host("a", node="n2"), host("b", node="n2"))
    assert hosts.rows_named(name, node).tolist() == expected


def test_a_caller_may_bring_its_own_index_of_names() -> None:
    hosts = table(host("a"), host("b"))
    assert hosts.rows_of_host() == {"a": [0], "b": [1]}
    own = {"a": (0,), "b": (1,)}
    assert replace(hosts, host_rows=own).rows_of_host() is own
