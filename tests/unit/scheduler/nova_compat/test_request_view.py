# SPDX-License-Identifier: Apache-2.0
from tests.unit.scheduler.small_cloud import flavor, request

from kilonova.model.image import Image
from kilonova.model.server_group import GroupView
from kilonova.scheduler.nova_compat.request_view import RequestView

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
