# SPDX-License-Identifier: Apache-2.0
from pathlib import Path
from typing import Any

import pytest

from kilonova.errors import ConfigurationError
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.numa import Pages
from kilonova.scenario.load import load_scenario, scenario_of
from kilonova.scenario.model import with_project_ids

SMALL: dict[str, Any] = {
    "name": "small",
    "hosts": 2,
    "flavors": [{"name": "tiny"}],
    "images": [{"name": "disk"}],
    "servers": [{"name": "one", "flavor": "tiny", "image": "disk", "expect": ["node1"]}],
}


GPU = {"vendor_id": "10de", "product_id": "1db4"}


def small(**changes: Any) -> dict[str, Any]:
    return {**SMALL, **changes}


def with_server(**changes: Any) -> dict[str, Any]:
    return small(servers=[{**SMALL["servers"][0], **changes}])


def test_hosts_are_a_number_a_list_or_patterns() -> None:
    assert [host.name for host in scenario_of({"name": "n", "hosts": 3}, "here").hosts] == ["node1", "node2", "node3"]
    hosts = [{"name": "gpu", "count": 2, "vcpus": 4}, {"name": "odd", "node": "odd.example"}, "plain"]
    found = scenario_of({"name": "n", "hosts": hosts}, "here").hosts
    assert [(host.name, host.hypervisor_hostname, host.vcpus) for host in found] == [
        ("gpu1", "gpu1", 4),
        ("gpu2", "gpu2", 4),
        ("odd", "odd.example", 32),
        ("plain", "plain", 32),
    ]


def test_capabilities_change_only_what_they_name() -> None:
    given = {"supported_instances": [["aarch64", "kvm", "hvm"]]}
    (host,) = scenario_of({"name": "n", "hosts": [{"name": "arm", "capabilities": given}]}, "here").hosts
    assert host.capabilities.supported_instances == (("aarch64", "kvm", "hvm"),)
    assert host.capabilities.hypervisor_type == "fake"


def test_hosts_may_have_cells_and_devices() -> None:
    cells = [{"memory_mib": 1024, "cpus": "0-1", "dedicated": "2,3", "cores": ["2,3"], "pages": {2048: 8, 4: 1000}}]
    pools = [{"vendor_id": "10de", "product_id": "1db4", "count": 2, "numa_node": 0, "tags": {"physical_network": "a"}}]
    (made,) = scenario_of({"name": "n", "hosts": [{"name": "a", "numa": cells, "pci": pools}]}, "here").hosts
    (cell,), (pool,) = made.devices.cells, made.devices.pools
    assert (cell.cpuset, cell.pcpuset, cell.siblings) == ({0, 1}, {2, 3}, (frozenset({2, 3}),))
    assert cell.pages == (Pages(4, 1000), Pages(2048, 8))
    assert (pool.total, pool.numa_node, pool.tags) == (2, 0, (("physical_network", "a"),))
    reported = {each.resource_class: each.total for each in made.reported_inventories(AllocationRatios())}
    assert (reported["VCPU"], reported["PCPU"]) == (2, 2)


def test_numbers_and_truths_become_text_where_text_is_wanted() -> None:
    aggregates = [{"name": "fast", "hosts": ["node1"], "metadata": {"ssd": True, "level": 3}}]
    scenario = scenario_of(small(aggregates=aggregates, flavors=[{"name": "tiny", "id": 9050}]), "here")
    assert scenario.aggregates[0].metadata == {"ssd": "true", "level": "3"}
    assert scenario.flavors[0].id == "9050"


def test_servers_of_one_request_are_numbered_as_the_api_does() -> None:
    one, many = (scenario_of(with_server(count=count), "here").servers[0] for count in (1, 2))
    assert one.names == ("one",)
    assert many.names == ("one-1", "one-2")


def test_a_zone_may_name_host_and_node() -> None:
    zones = ("az1", "az1:node2", "az1:node2:n", ":node1", "az1::n")
    targets = [scenario_of(with_server(zone=zone), "here").servers[0].target for zone in zones]
    assert targets == [
        ("az1", None, None),
        ("az1", "node2", None),
        ("az1", "node2", "n"),
        (None, "node1", None),
        ("az1", None, "n"),
    ]


def test_project_references_are_filled_in() -> None:
    metadata = {"filter_tenant_id3": "${project:demo},${project:admin}", "cost": "$5"}
    scenario = scenario_of(small(aggregates=[{"name": "theirs", "metadata": metadata}]), "here")
    filled = with_project_ids(scenario, {"demo": "d1", "admin": "a1"})
    assert filled.aggregates[0].metadata == {"filter_tenant_id3": "d1,a1", "cost": "$5"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (small(hostes=3), r"unknown field 'hostes'. Known fields: name, about"),
        (small(hosts="three"), "hosts must be a number or a list"),
        (small(hosts=-1), "hosts must be a number or a list"),
        (small(hosts=[{"name": "a", "vcpus": "many"}]), r"hosts\[0\]: vcpus must be an integer, not 'many'"),
        (small(hosts=[{"name": "a", "vcpus": 1.5}]), r"hosts\[0\]: vcpus must be an integer, not 1.5"),
        (small(hosts=[{"name": "a", "count": "x"}]), r"hosts\[0\]: count must be a non-negative integer"),
        (small(hosts=[{"name": "a", "models": {"hw_fan": ["x"]}}]), r"hosts\[0\]: models: unknown image property"),
        (small(hosts=[{"name": "a", "models": {"hw_vif_model": "x"}}]), "models.hw_vif_model must be a list"),
        (
            small(hosts=[{"name": "a", "count": 2, "models": {"hw_vif_model": ["virtio", "pigeon"]}}]),
            r"hosts\[0\]: models: no trait exists for hw_vif_model=pigeon",
        ),
        (small(hosts=["a", "a"]), "hosts: duplicate name 'a'"),
        (small(hosts=[{"name": "a", "numa": {}}]), r"hosts\[0\]: numa must be a list"),
        (small(hosts=[{"name": "a", "numa": [{}]}]), r"numa\[0\]: field 'memory_mib' is missing"),
        (small(hosts=[{"name": "a", "numa": [{"memory_mib": 1, "cpus": "x"}]}]), "numa: 'x' is not a list of CPUs"),
        (small(hosts=[{"name": "a", "numa": [{"memory_mib": 1, "cpus": "0"}] * 2}]), "numa: a CPU is in two cells"),
        (small(hosts=[{"name": "a", "pci": [{**GPU, "numa_node": 1}]}]), "pci: NUMA cell 1 does not exist"),
        (small(hosts=[{"name": "a", "pci": [{**GPU, "count": 0}]}]), "pci: count must be at least 1"),
        (small(flavors={"name": "tiny"}), "flavors must be a list"),
        (small(flavors=[{"name": "tiny"}, {"name": "tiny"}]), "flavors: duplicate name 'tiny'"),
        (small(flavors=[{"vcpus": 1}]), r"flavors\[0\]: field 'name' is missing"),
        (small(flavors=[{"name": "tiny", "public": "no"}]), r"flavors\[0\]: public must be true or false"),
        (small(flavors=[{"name": "tiny", "extra_specs": ["a"]}]), r"flavors\[0\]: extra_specs must be a mapping"),
        (small(images=[{"name": "disk", "properties": {"a": ["b"]}}]), r"properties.a must be a string, not \['b'\]"),
        (small(images=["disk"]), r"images\[0\] must be a mapping"),
        (small(options={"filter_scheduler": "x"}), "options.filter_scheduler must be a mapping"),
        (small(aggregates=[{"name": "x", "hosts": ["node9"]}]), "aggregate x: unknown host 'node9'. Known: node1"),
        (small(aggregates=[{"name": "x", "metadata": {"a": "${project:b}"}}]), "unknown project 'b'"),
        (
            small(aggregates=[{"name": "x", "metadata": {"kilonova:only": "flavour=a"}}]),
            "x: kilonova:only: cannot read",
        ),
        (small(groups=[{"name": "g", "policy": "close"}]), "group g: unknown policy 'close'"),
        (small(groups=[{"name": "g", "policy": "affinity", "max_server_per_host": 2}]), "for anti-affinity only"),
        (with_server(flavor="huge"), "server one: unknown flavor 'huge'. Known: tiny"),
        (with_server(image="none"), "server one: unknown image 'none'"),
        (with_server(group="none"), "server one: unknown group 'none'"),
        (with_server(project="other"), "server one: unknown project 'other'. Known: admin, demo"),
        (with_server(expect=["node7"]), "server one: unknown host 'node7'"),
        (with_server(expect="node1"), "expect must be a list"),
        (with_server(zone="nova:node7"), "server one: unknown host 'node7'"),
        (with_server(count=0), "server one: count must be at least 1"),
        (with_server(uses=["node2"]), "server one: every host of `uses` must also be in `expect`"),
        (with_server(refused_by="ComputeFilter"), "server one: refused_by and expect exclude each other"),
        (
            {**with_server(group="g", project="demo"), "groups": [{"name": "g", "policy": "affinity"}]},
            "group 'g' is in project 'admin'",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(content: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^here: .*{message}"):
        scenario_of(content, "here")


def test_a_file_has_a_name_and_folders_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "rules").mkdir()
    (tmp_path / "mine.yaml").write_text("python_path: [rules]\n")
    scenario = load_scenario(tmp_path / "mine.yaml")
    assert scenario.name == "mine"
    assert scenario.python_path == (str(tmp_path / "rules"),)


@pytest.mark.parametrize("text", ["[]", "a: [", "python_path: [nowhere]\n", "\x00", None])
def test_an_unusable_file_is_named(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "bad.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigurationError, match=f"Scenario {path}"):
        load_scenario(path)
