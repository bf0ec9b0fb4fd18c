# SPDX-License-Identifier: Apache-2.0
"""Choice of NUMA cells and PCI devices within a host: examples whose answers an operator would expect."""

import json

import pytest
from tests.unit.scheduler.small_cloud import flavor, request
from tests.unit.scheduler.small_devices import PINNED, cell, gpus

from kilonova.model.host_devices import DeviceShare, HostDevices
from kilonova.model.numa import Pages, Ratios
from kilonova.model.pci import PF
from kilonova.scheduler.devices.choice import needs_of
from kilonova.scheduler.devices.pci_request import read_aliases

ALIASES = read_aliases(
    (
        json.dumps({"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "numa_policy": "required"}),
        json.dumps({"name": "any", "vendor_id": "10de", "product_id": "1db4", "numa_policy": "preferred"}),
        json.dumps({"name": "socket", "vendor_id": "10de", "product_id": "1db4", "numa_policy": "socket"}),
        json.dumps({"name": "legacy", "vendor_id": "10de", "product_id": "1db4"}),
    )
)


def taken(host: HostDevices, specs: dict[str, str], vcpus: int = 4, ratios: Ratios | None = None) -> DeviceShare | None:
    asked = needs_of(request(flavor=flavor(specs, vcpus=vcpus, memory_mib=2048)), ALIASES)
    return asked.of(host, ratios or Ratios())


def cells_of(share: DeviceShare | None) -> list[int] | None:
    return None if share is None else [part.cell for part in share.cells]


def test_hyperthreads_of_a_server_stay_together() -> None:
    share = taken(HostDevices((cell(0),)), PINNED)
    assert share is not None
    assert share.cells[0].pinned == {0, 1, 2, 3}
    assert share.cells[0].pinning == ((0, 0), (1, 1), (2, 2), (3, 3))


def test_require_wants_siblings_and_prefer_can_do_without() -> None:
    odd = HostDevices((cell(0, pinned=frozenset({0, 2, 4, 6})),))
    assert taken(odd, PINNED) is not None
    assert taken(odd, {**PINNED, "hw:cpu_thread_policy": "require"}) is None
    assert taken(HostDevices((cell(0, threads=1),)), {**PINNED, "hw:cpu_thread_policy": "require"}) is None
    assert taken(HostDevices((cell(0),)), {**PINNED, "hw:cpu_thread_policy": "require"}) is not None


def test_isolate_keeps_siblings_idle_where_all_cpus_serve_both_kinds() -> None:
    isolated = {**PINNED, "hw:cpu_thread_policy": "isolate"}
    cpus = frozenset(range(8))
    both = HostDevices((cell(0, cpuset=cpus, pcpuset=cpus),))
    share = taken(both, isolated, vcpus=2)
    assert share is not None
    assert share.cells[0].pinned == {0, 1, 2, 3}
    assert [cpu for _, cpu in share.cells[0].pinning] == [0, 2]
    assert taken(both, isolated, vcpus=5) is None, "there are four cores"
    assert taken(HostDevices((cell(0),)), isolated) is None, "the idle siblings would be somebody else's"
    assert taken(HostDevices((cell(0, threads=1),)), isolated) is not None


def test_the_emulator_gets_one_more_cpu() -> None:
    alone = {**PINNED, "hw:emulator_threads_policy": "isolate"}
    share = taken(HostDevices((cell(0),)), alone)
    assert share is not None
    assert (share.cells[0].emulator, len(share.cells[0].pinned)) == ({4}, 5)
    assert taken(HostDevices((cell(0),)), alone, vcpus=8) is None
    assert taken(HostDevices((cell(0),)), PINNED, vcpus=8) is not None


def test_each_cell_of_a_server_has_a_host_cell_of_its_own() -> None:
    two = {**PINNED, "hw:numa_nodes": "2"}
    assert taken(HostDevices((cell(0),)), two) is None
    assert cells_of(taken(HostDevices((cell(0), cell(1))), two)) == [0, 1]
    busy = cell(1, pinned=frozenset(range(10, 17)))
    assert cells_of(taken(HostDevices((cell(0), busy, cell(2))), two)) == [0, 2]


def test_a_cell_is_not_overcommitted_by_one_server_and_not_at_all_by_pinned_ones() -> None:
    shared = {"hw:numa_nodes": "1"}
    host = HostDevices((cell(0, used_cpus=2, used_memory_mib=7168),))
    assert taken(host, shared, vcpus=2) is None
    assert taken(host, shared, vcpus=2, ratios=Ratios(2.0, 2.0)) is not None
    assert taken(host, shared, vcpus=3, ratios=Ratios(9.0, 9.0)) is None, "it has two shared CPUs"
    assert taken(host, PINNED, ratios=Ratios(9.0, 9.0)) is None, "1 GiB is left"


@pytest.mark.parametrize(
    ("size", "chosen"), [("large", 2048), ("any", 2048), ("small", 4), ("2MB", 2048), ("1GB", None), ("4", 4)]
)
def test_pages_come_in_the_size_asked_for(size: str, chosen: int | None) -> None:
    host = HostDevices((cell(0, pages=(Pages(4, 1_000_000), Pages(2048, 1024), Pages(1048576, 4, used=3))),))
    share = taken(host, {**PINNED, "hw:mem_page_size": size})
    if chosen is None:
        assert share is None
    else:
        assert share is not None
        assert (share.cells[0].page_size_kib, share.cells[0].pages) == (chosen, 2048 * 1024 // chosen)


def test_reserved_pages_are_nobodys() -> None:
    host = HostDevices((cell(0, pages=(Pages(4, 1000), Pages(2048, 1500, reserved=600))),))
    assert taken(host, {**PINNED, "hw:mem_page_size": "2MB"}) is None


@pytest.mark.parametrize(
    ("alias", "near", "fits"),
    [
        ("gpu", 1, True),
        ("gpu", 0, False),
        ("gpu", None, False),
        ("legacy", None, True),
        ("legacy", 0, False),
        ("socket", 0, True),
        ("socket", 2, False),
        ("socket", None, False),
        ("any", 2, True),
        ("any", None, True),
    ],
)
def test_devices_are_as_near_as_the_policy_asks(alias: str, near: int | None, fits: bool) -> None:
    """Only cell 1 has CPUs left; cells 0 and 1 share a socket."""
    full = frozenset(range(30))
    host = HostDevices((cell(0, pinned=full), cell(1), cell(2, pinned=full)), (gpus(0, 1, near),))
    share = taken(host, {**PINNED, "pci_passthrough:alias": f"{alias}:1"})
    assert (share is not None) == fits
    assert share is None or (cells_of(share), share.devices) == ([1], ((0, 1),))


def test_a_server_goes_to_the_cell_of_its_device() -> None:
    host = HostDevices((cell(0), cell(1)), (gpus(0, 1, 1),))
    assert cells_of(taken(host, {**PINNED, "pci_passthrough:alias": "any:1"})) == [1]
    assert cells_of(taken(host, PINNED)) == [0], "and one without device stays away from it"


def test_requests_do_not_take_each_others_devices() -> None:
    """The first could be served from either pool, the second only from the near one."""
    host = HostDevices((cell(0),), (gpus(0, 1, 0), gpus(1, 1, None)))
    share = taken(host, {**PINNED, "pci_passthrough:alias": "legacy:1,gpu:1"})
    assert share is not None
    assert share.devices == ((0, 1), (1, 1))


def test_whole_functions_and_remote_ones_are_not_handed_out_unasked() -> None:
    wanted = {"pci_passthrough:alias": "any:1"}
    assert taken(HostDevices((), (gpus(0, 1, None, dev_type=PF),)), wanted) is None
    assert taken(HostDevices((), (gpus(0, 1, None, tags=(("remote_managed", "true"),)),)), wanted) is None
    assert taken(HostDevices((), (gpus(0, 1, None),)), wanted) == DeviceShare(devices=((0, 1),))


def test_a_host_that_tells_of_no_cells_has_none_to_guard() -> None:
    assert taken(HostDevices(), PINNED) == DeviceShare()
    assert taken(HostDevices(), {**PINNED, "pci_passthrough:alias": "any:1"}) is None
