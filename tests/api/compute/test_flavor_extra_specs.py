# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from api.compute_cloud import Cloud
from support.api_client import Answer

PATH = "/flavors/f/os-extra_specs"


@pytest.fixture(autouse=True)
def _flavor(cloud: Cloud) -> None:
    cloud.admin.post("/flavors", {"flavor": {"id": "f", "name": "f", "ram": 1, "vcpus": 1, "disk": 0}})


def post(cloud: Cloud, specs: Any, version: str = "2.1") -> Answer:
    return cloud.admin.at(version).post(PATH, {"extra_specs": specs})


def test_specs_are_merged_and_listed(cloud: Cloud) -> None:
    made = post(cloud, {"aggregate_instance_extra_specs:ssd": "true", "b": "1"})
    assert made.status == 200
    assert made.body == {"extra_specs": {"aggregate_instance_extra_specs:ssd": "true", "b": "1"}}
    assert post(cloud, {"b": 2, "c": 0.5}).body == {"extra_specs": {"b": "2", "c": "0.5"}}
    everything = {"aggregate_instance_extra_specs:ssd": "true", "b": "2", "c": "0.5"}
    assert cloud.member.get(PATH).body == {"extra_specs": everything}
    assert cloud.member.at("2.61").get("/flavors/f").body["flavor"]["extra_specs"] == everything
    assert cloud.member.at("2.61").get("/flavors/detail").body["flavors"][0]["extra_specs"] == everything


def test_one_spec(cloud: Cloud) -> None:
    set_ = cloud.admin.put(f"{PATH}/hw:cpu_policy", {"hw:cpu_policy": "dedicated"})
    assert (set_.status, set_.body) == (200, {"hw:cpu_policy": "dedicated"})
    assert cloud.member.get(f"{PATH}/hw:cpu_policy").body == {"hw:cpu_policy": "dedicated"}
    deleted = cloud.admin.delete(f"{PATH}/hw:cpu_policy")
    assert (deleted.status, deleted.raw) == (200, b"")
    assert cloud.admin.delete(f"{PATH}/hw:cpu_policy").status == 404
    assert cloud.member.get(f"{PATH}/hw:cpu_policy").status == 404


def test_unknown_flavors(cloud: Cloud) -> None:
    path = "/flavors/g/os-extra_specs"
    client = cloud.admin
    answers = [
        client.get(path),
        client.get(f"{path}/a"),
        client.post(path, {"extra_specs": {"a": "b"}}),
        client.put(f"{path}/a", {"a": "b"}),
        client.delete(f"{path}/a"),
    ]
    assert [answer.status for answer in answers] == [404] * 5


@pytest.mark.parametrize(
    "specs",
    [None, [], "a", {"": "b"}, {"a/b": "c"}, {"k" * 256: "v"}, {"a": None}, {"a": True}, {"a": {}}, {"a": "v" * 256}],
)
def test_what_is_refused(cloud: Cloud, specs: Any) -> None:
    before = cloud.everything()
    assert post(cloud, specs).status == 400
    assert cloud.admin.put(f"{PATH}/a", specs).status == 400
    assert cloud.everything() == before


@pytest.mark.parametrize("body", [{}, {"b": "1"}, {"a": "1", "b": "2"}])
def test_the_body_of_one_spec_has_exactly_its_key(cloud: Cloud, body: dict[str, str]) -> None:
    assert cloud.admin.put(f"{PATH}/a", body).status == 400


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hw:cpu_policy", "dedicated"),
        ("hw:cpu_max_sockets", "2"),
        ("hw:numa_cpus.0", "0-3,^2"),
        ("hw:mem_page_size", "1GiB"),
        ("hw:pmu", "False"),
        ("os:secure_boot", "required"),
        ("quota:disk_read_bytes_sec", "1024"),
        ("quota:cpu_quota", "-1"),
        ("resources:VCPU", "0"),
        ("resources_NET1:CUSTOM_GOLD", "2"),
        ("resources1:VGPU", "1"),
        ("trait:HW_CPU_X86_AVX", "required"),
        ("trait2:CUSTOM_RED", "forbidden"),
        ("group_policy", "isolate"),
        ("pci_passthrough:alias", "gpu:1, fpga:2"),
        ("capabilities:cpu_info:features", "<in> avx"),
        ("capabilities:hypervisor_type", "s== QEMU"),
        ("accel:device_profile", "mine"),
        ("aggregate_instance_extra_specs:ssd", "true"),
        ("my_filter:anything", "at all"),
        ("unscoped", "free"),
    ],
)
def test_known_specs_are_taken_at_2_86(cloud: Cloud, key: str, value: str) -> None:
    assert post(cloud, {key: value}, "2.86").status == 200


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hw:cpu_polciy", "dedicated"),
        ("hw:cpu_policy", "mine"),
        ("hw:cpu_sockets", "0"),
        ("hw:numa_nodes", "two"),
        ("hw:mem_page_size", "big"),
        ("hw:pmu", "perhaps"),
        ("os:secure_boots", "required"),
        ("quota:disk_read_bytes_sec", "-1"),
        ("quota:anything", "1"),
        ("resources:vcpu", "1"),
        ("resources:VCPU", "many"),
        ("trait:HW_CPU_X86_AVX", "preferred"),
        ("group_policy", "together"),
        ("pci_passthrough:alias", "gpu"),
        ("capabilities:colour", "red"),
        ("accel:profile", "mine"),
    ],
)
def test_bad_specs_of_known_namespaces_are_refused_from_2_86(cloud: Cloud, key: str, value: str) -> None:
    assert post(cloud, {key: value}, "2.85").status == 200
    before = cloud.everything()
    for refused in (post(cloud, {key: value}, "2.86"), cloud.admin.at("2.86").put(f"{PATH}/{key}", {key: value})):
        assert refused.status == 400
        assert key in refused.fault[1]
    assert cloud.everything() == before
