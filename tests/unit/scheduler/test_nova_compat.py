# SPDX-License-Identifier: Apache-2.0
from typing import Any

import numpy as np
import pytest
from tests.unit.scheduler.small_cloud import flavor, host, request, table

from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Capabilities
from kilonova.model.host_devices import HostDevices
from kilonova.model.image import Image
from kilonova.model.numa import HostCell, Pages
from kilonova.model.pci import PciPool
from kilonova.model.server_group import GroupView
from kilonova.scheduler.filters import BaseHostFilter
from kilonova.scheduler.host_table import ALL_ROWS
from kilonova.scheduler.nova_compat import HostFilterAdapter, HostState, HostWeigherAdapter, RequestView, View
from kilonova.scheduler.weighers import BaseHostWeigher

HOSTS = table(
    host("other", last_seen=5.0),
    host(
        "compute2",
        node="compute2.example.org",
        uuid="uuid2",
        used={"VCPU": 3, "MEMORY_MB": 1024, "DISK_GB": 20},
        num_instances=1,
        num_io_ops=2,
        failed_builds=3,
        disabled=True,
        disabled_reason="broken",
        instances=("i1",),
        host_ip="10.0.0.2",
        capabilities=Capabilities("QEMU", 6002000, (("x86_64", "kvm", "hvm"),), {"arch": "x86_64"}, {"gpu": "2"}),
    ),
    aggregates=(Aggregate(7, "uuid7", "Trove", ("compute2",), {"availability_zone": "z", "CPU": "Trove"}),),
)


def test_a_host_state_has_the_attributes_nova_documents() -> None:
    state = HostState(HOSTS, 1)
    expected = {
        "host": "compute2",
        "nodename": "compute2.example.org",
        "hypervisor_hostname": "compute2.example.org",
        "uuid": "uuid2",
        "host_ip": "10.0.0.2",
        "free_ram_mb": 8192 - 512 - 1024,
        "total_usable_ram_mb": 8192,
        "ram_allocation_ratio": 1.0,
        "free_disk_mb": 180 * 1024,
        "total_usable_disk_gb": 200,
        "disk_mb_used": 20 * 1024,
        "disk_allocation_ratio": 1.0,
        "vcpus_total": 8,
        "vcpus_used": 3,
        "cpu_allocation_ratio": 4.0,
        "num_instances": 1,
        "num_io_ops": 2,
        "failed_builds": 3,
        "hypervisor_type": "QEMU",
        "hypervisor_version": 6002000,
        "cpu_info": {"arch": "x86_64"},
        "supported_instances": [["x86_64", "kvm", "hvm"]],
        "stats": {"gpu": "2", "num_instances": 1, "io_workload": 2, "failed_builds": 3},
        "limits": {},
        "numa_topology": None,
    }
    assert {name: getattr(state, name) for name in expected} == expected
    assert isinstance(state.free_ram_mb, int)
    assert (state.updated.timestamp(), state.allocation_candidates) == (HOSTS.taken_at, ())
    assert "free_ram_mb" in dir(state)
    assert list(state.instances) == ["i1"]
    assert state.service["disabled"] is True
    assert state.service.disabled_reason == "broken"
    with pytest.raises(AttributeError):
        _ = state.nonsense
    state.nonsense = state.free_ram_mb = 7
    assert (state.nonsense, state.free_ram_mb, HostState(HOSTS, 1).free_ram_mb) == (7, 7, 6656)


def test_a_host_state_knows_its_aggregates() -> None:
    (trove,) = HostState(HOSTS, 1).aggregates
    assert (trove.id, trove.uuid, trove.name, trove.availability_zone) == (7, "uuid7", "Trove", "z")
    assert trove.hosts == ["compute2"]
    assert trove.metadata == {"availability_zone": "z", "CPU": "Trove"}
    assert HostState(HOSTS, 0).aggregates == []


def test_a_host_state_prints_as_in_the_log_of_the_document() -> None:
    expected = "(compute2, compute2.example.org) ram:6656 disk:184320 io_ops:2 instances:1"
    assert str(HostState(HOSTS, 1)) == repr(HostState(HOSTS, 1)) == expected


SPEC = request(
    flavor=flavor({"hw:x": "1"}, name="m1.large", ephemeral_gib=2, swap_mib=3),
    image=Image("image", "cirros", properties={"tesora_edition": "x", "architecture": "x86_64"}),
    project_id="p",
    user_id="u",
    instance_uuids=("i1", "i2"),
    availability_zone="z",
    hints={"group": ("g",), "different_host": ("a", "b"), "none": ()},
    force_host="compute2",
    force_node="n",
    requested_host="r",
    ignore_hosts=frozenset({"y", "x"}),
    group=GroupView("g", "affinity", hosts={"a": 1, "b": 0}, members=frozenset({"i9"})),
)


def test_a_request_reads_as_an_object() -> None:
    view = RequestView(SPEC)
    assert view.flavor.extra_specs == {"hw:x": "1"}
    assert (view.flavor.name, view.vcpus, view.memory_mb, view.root_gb) == ("m1.large", 1, 512, 1)
    assert (view.ephemeral_gb, view.swap) == (2, 3)
    assert view.image is not None
    assert view.image.properties.get("tesora_edition") == "x"
    assert view.image.properties.architecture == "x86_64"
    assert view.image.properties.hw_architecture is None
    assert not hasattr(view.image.properties, "__wrapped__")
    assert (view.project_id, view.user_id, view.num_instances, view.instance_uuid) == ("p", "u", 2, "i1")
    assert view.availability_zone == "z"
    assert (view.obj_attr_is_set("flavor"), view.obj_attr_is_set("nonsense")) == (True, False)
    assert (view.flavor.obj_attr_is_set("name"), view.flavor.obj_attr_is_set("nonsense")) == (True, False)
    assert view.ignore_hosts == ["x", "y"]
    assert (view.force_hosts, view.force_nodes) == (["compute2"], ["n"])
    assert view.get_scheduler_hint("group") == "g"
    assert view.get_scheduler_hint("different_host") == ["a", "b"]
    assert view.get_scheduler_hint("none", "x") == []
    assert view.get_scheduler_hint("absent", "x") == "x"
    assert view.instance_group is not None
    assert (view.instance_group.policy, view.instance_group.hosts) == ("affinity", ["a"])
    assert view.requested_destination == {"host": "r", "node": None}
    assert view.numa_topology is None


def test_cells_and_devices_are_shown_with_what_is_left_of_them() -> None:
    cell = HostCell(
        0,
        frozenset({0}),
        frozenset({1, 2}),
        2048,
        (frozenset({1, 2}),),
        (Pages(4, 100, 10, 20),),
        used_memory_mib=512,
        pinned=frozenset({1}),
    )
    pool = PciPool(0, "10de", "1db4", 3, 0, tags=(("physical_network", "a"),), used=1)
    told, silent = table(host("a", devices=HostDevices((cell,), (pool,))), host("b")), HostState(HOSTS, 0)
    state = HostState(told, 0)
    assert state.numa_topology is not None
    (shown,) = state.numa_topology.cells
    assert (shown.id, shown.cpuset, shown.pcpuset, shown.free_pcpus, shown.avail_pcpus) == (0, {0}, {1, 2}, {2}, 1)
    assert (shown.memory, shown.memory_usage, shown.avail_memory, shown.has_threads) == (2048, 512, 1536, True)
    assert shown.mempages == [{"size_kb": 4, "total": 100, "used": 20, "reserved": 10, "free": 70}]
    assert state.pci_stats == {
        "pools": [
            {
                "vendor_id": "10de",
                "product_id": "1db4",
                "numa_node": 0,
                "dev_type": "type-PCI",
                "count": 2,
                "physical_network": "a",
            }
        ]
    }
    assert (silent.numa_topology, silent.pci_stats) == (None, None)


def test_a_request_shows_the_cells_it_asks_for() -> None:
    view = RequestView(request({"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "require"}))
    assert view.numa_topology is not None
    (cell,) = view.numa_topology.cells
    assert (cell.pcpuset, cell.memory, cell.cpu_policy, cell.cpu_thread_policy) == ({0}, 512, "dedicated", "require")
    assert RequestView(request({"hw:numa_nodes": "none"})).numa_topology is None


def test_a_request_reads_as_nested_dicts() -> None:
    view = RequestView(SPEC)
    properties = view.get("request_spec", {}).get("image", {}).get("properties", {})
    assert "tesora_edition" in properties.keys()  # noqa: SIM118
    assert view["request_spec"]["instance_properties"]["project_id"] == "p"
    assert view["instance_type"]["memory_mb"] == 512
    assert view.get("scheduler_hints") == {"group": "g", "different_host": ["a", "b"], "none": []}
    assert view["group_hosts"] == {"a"}
    assert view.get("nothing", 5) == 5
    assert len(view) == len(list(view))


def test_a_request_without_image_and_group_reads_as_empty() -> None:
    view = RequestView(request())
    assert view.image is None
    assert view.instance_uuid is None
    assert view.get("request_spec", {}).get("image", {}).get("properties", {}) == {}
    assert "group_hosts" not in view
    assert (view.force_hosts, view.force_nodes, view.requested_destination) == ([], [], None)


def test_a_view_lacks_what_it_lacks() -> None:
    with pytest.raises(AttributeError, match="b"):
        _ = View(a=1).b


class Roomy(BaseHostFilter):
    run_filter_once_per_request = True
    RUN_ON_REBUILD = True

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        return bool(host_state.free_ram_mb > 7000)


class Silent(BaseHostFilter):
    def filter_all(self, filter_obj_list: Any, spec_obj: Any) -> None:
        return None


class Bare:
    def host_passes(self, host_state: Any, spec_obj: Any) -> bool:
        return bool(host_state.host == "compute2")


def test_an_adapter_judges_the_hosts_that_are_left() -> None:
    roomy = HostFilterAdapter("Roomy", Roomy())
    assert (roomy.run_once, roomy.runs_on_rebuild) == (True, True)
    assert roomy.passes(HOSTS, SPEC).tolist() == [True, False]
    assert roomy.passes_among(HOSTS, SPEC, np.array([False, True])).tolist() == [False, False]
    assert HostFilterAdapter("Silent", Silent()).passes(HOSTS, SPEC).tolist() == [False, False]
    bare = HostFilterAdapter("Bare", Bare())
    assert (bare.run_once, bare.runs_on_rebuild) == (False, False)
    assert bare.passes(HOSTS, SPEC).tolist() == [False, True]


class Newest(BaseHostWeigher):
    minval = 0

    def weight_multiplier(self, host_state: Any) -> float:
        return 2.0 if host_state.host == "other" else 3.0

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        return float(host_state.service.last_seen_up)


def test_an_adapter_rates_the_hosts_that_passed() -> None:
    adapter = HostWeigherAdapter("Newest", Newest())
    assert (adapter.minimum, adapter.maximum) == (0, None)
    assert np.asarray(adapter.factors(HOSTS, ALL_ROWS)).tolist() == [2.0, 3.0]
    assert adapter.weigh(HOSTS, SPEC, np.array([0])).tolist() == [5.0]
    assert HostWeigherAdapter("x", object()).factors(HOSTS, ALL_ROWS) == 1.0
