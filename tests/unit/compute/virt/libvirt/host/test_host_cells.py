# SPDX-License-Identifier: Apache-2.0
"""The CPUs and NUMA cells that a libvirt host offers."""

from typing import Any

import pytest

from kilonova.compute.virt.libvirt.host.host_cells import (
    GuestCpus,
    cells_for_guests,
    cpus_for_guests,
    near_cards,
    read_reserved_pages,
    require_consistent,
)
from kilonova.config.host_resources import HostResourceSettings
from kilonova.errors import ConfigurationError
from kilonova.model.numa import Pages
from support.libvirt_hosts import arm, two_sockets

_ALL = frozenset(range(8))


@pytest.mark.parametrize(
    ("settings", "shared", "dedicated"),
    [
        ({}, _ALL, set()),
        ({"cpu_shared_set": frozenset({0, 1})}, {0, 1}, set()),
        ({"cpu_dedicated_set": frozenset({2, 3, 6, 7})}, set(), {2, 3, 6, 7}),
        ({"cpu_shared_set": frozenset({0, 4}), "cpu_dedicated_set": frozenset({2, 6})}, {0, 4}, {2, 6}),
    ],
)
def test_which_cpus_guests_may_have(settings: dict[str, Any], shared: set[int], dedicated: set[int]) -> None:
    assert cpus_for_guests(_ALL, HostResourceSettings(**settings)) == GuestCpus(frozenset(shared), frozenset(dedicated))


@pytest.mark.parametrize("name", ["cpu_shared_set", "cpu_dedicated_set"])
def test_a_cpu_that_is_not_there_is_refused(name: str) -> None:
    settings = HostResourceSettings(**{name: frozenset({1, 8, 9})})
    with pytest.raises(ConfigurationError, match=rf"\[compute\] {name} contains the CPUs 8-9"):
        cpus_for_guests(_ALL, settings)


def test_sets_must_not_overlap() -> None:
    settings = HostResourceSettings(cpu_shared_set=frozenset({0, 1}), cpu_dedicated_set=frozenset({1, 2}))
    with pytest.raises(ConfigurationError, match="both contain the CPUs 1"):
        require_consistent(settings)


@pytest.mark.parametrize("name", ["cpu_shared_set", "cpu_dedicated_set"])
def test_reserved_cpus_are_for_hosts_without_sets(name: str) -> None:
    with pytest.raises(ConfigurationError, match="reserved_host_cpus"):
        require_consistent(HostResourceSettings(reserved_host_cpus=1, **{name: frozenset({0})}))
    require_consistent(HostResourceSettings(reserved_host_cpus=1))


def test_cells_have_their_own_part_of_the_cpus_and_of_the_reserved_pages() -> None:
    cpus = GuestCpus(frozenset({0, 4, 1}), frozenset({2, 6, 3}))
    first, second = cells_for_guests(two_sockets().cells, cpus, {(0, 2048): 96, (1, 2048): 5, (0, 1048576): 1})
    assert (first.cpuset, first.pcpuset) == ({0, 1, 4}, set())
    assert (second.cpuset, second.pcpuset) == (set(), {2, 3, 6})
    assert first.siblings == ({0, 4}, {1})
    assert second.siblings == ({2, 6}, {3})
    assert first.memory_mib == second.memory_mib == 64 * 1024
    assert (first.socket, second.socket) == (0, 1)
    assert first.pages == (Pages(4, 12582912), Pages(2048, 4096, 96), Pages(1048576, 8, 1))
    assert second.pages[1] == Pages(2048, 0, 0)


def test_cpus_that_are_offline_are_in_no_cell() -> None:
    (cell,) = cells_for_guests(arm().cells, GuestCpus(frozenset({0, 1, 3})), {})
    assert cell.cpuset == {0, 1, 3}
    assert cell.siblings == ({0}, {1}, {3})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("node:0,size:2048,count:64", {(0, 2048): 64}),
        ("size: 1GB, node: 1, count: 1", {(1, 1048576): 1}),
        ("node:0,size:2MB,count:3", {(0, 2048): 3}),
    ],
)
def test_reserved_pages(text: str, expected: dict[tuple[int, int], int]) -> None:
    assert read_reserved_pages([text]) == expected


@pytest.mark.parametrize("text", ["", "node:0,size:2048", "node:0,size:big,count:1", "node:-1,size:4,count:1", "0,1,2"])
def test_reserved_pages_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigurationError, match="reserved_huge_pages"):
        read_reserved_pages([text])


def test_cells_have_the_networks_whose_cards_are_near_them() -> None:
    cells = cells_for_guests(two_sockets().cells, GuestCpus(_ALL), {})
    networks = {"public": frozenset({0, 1}), "storage": frozenset({1})}
    resources = HostResourceSettings(tunnel_nodes=frozenset({0}), physnet_nodes=networks)
    first, second = near_cards(cells, resources)
    assert (first.physnets, first.tunneled) == ({"public"}, True)
    assert (second.physnets, second.tunneled) == ({"public", "storage"}, False)
    assert near_cards(cells, HostResourceSettings()) == cells


@pytest.mark.parametrize(
    ("settings", "section"),
    [({"tunnel_nodes": frozenset({2})}, "neutron_tunnel"), ({"physnet_nodes": {"x": {0, 2}}}, "neutron_physnet_x")],
)
def test_a_card_near_a_cell_that_is_not_there_is_refused(settings: dict[str, Any], section: str) -> None:
    cells = cells_for_guests(two_sockets().cells, GuestCpus(_ALL), {})
    with pytest.raises(ConfigurationError, match=rf"\[{section}\] numa_nodes: this host has no NUMA cell 2\."):
        near_cards(cells, HostResourceSettings(**settings))
