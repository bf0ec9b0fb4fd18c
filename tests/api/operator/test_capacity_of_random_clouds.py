# SPDX-License-Identifier: Apache-2.0
"""Capacity of small random clouds, compared with servers that are created over HTTP until one is refused."""

import random
from fractions import Fraction
from typing import Any

import pytest
import yaml

from support.control import IMAGE, Control, NewControl
from support.samples import sampled

GPU = '{"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}'
#: Follows the section ``[quota]`` of every control process of tests.
CONFIG = f"""server_group_members = -1
[pci]
alias = {GPU}
[filter_scheduler]
enabled_filters = ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,ServerGroupAntiAffinityFilter,\
ServerGroupAffinityFilter,NUMATopologyFilter,PciPassthroughFilter,AggregateInstanceExtraSpecsFilter,NumInstancesFilter
max_instances_per_host = 6
"""
FLAVORS: dict[str, dict[str, str]] = {
    "plain": {},
    "pinned": {"hw:cpu_policy": "dedicated"},
    "wide": {"hw:numa_nodes": "2"},
    "gpu": {"pci_passthrough:alias": "gpu:1"},
    "gpu-pinned": {"hw:cpu_policy": "dedicated", "pci_passthrough:alias": "gpu:1"},
    "ssd": {"aggregate_instance_extra_specs:ssd": "true"},
}
METADATA = ({"ssd": "true"}, {"kilonova:only": "flavor=ssd"}, {"kilonova:only": "project=other"}, {})
POLICIES = (None, None, "affinity", "anti-affinity", "soft-affinity")


def random_host(chance: random.Random, name: str) -> dict[str, Any]:
    host: dict[str, Any] = {"name": name, "vcpus": chance.choice((2, 4, 8)), "memory_mib": chance.choice((2048, 6144))}
    if chance.random() < 0.6:
        del host["vcpus"]
        host["memory_mib"] = 8192
        host["numa"] = [
            {"memory_mib": 4096, "cpus": f"{at}-{at + 1}", "dedicated": f"{at + 2}-{at + chance.choice((3, 5))}"}
            for at in (0, 8)
        ]
    if chance.random() < 0.5:
        pools = {"vendor_id": "10de", "product_id": "1db4", "count": chance.choice((1, 2, 3))}
        host["pci"] = [pools | ({"numa_node": 1} if "numa" in host else {})]
    return host


def random_control(chance: random.Random, new_control: NewControl) -> Control:
    hosts = [random_host(chance, f"node{number}") for number in range(chance.randint(1, 3))]
    scenario = yaml.safe_dump({"images": [{"name": "cirros"}], "hosts": hosts})
    control = new_control(flavor=False, scenario=scenario, more=CONFIG)
    for name, extra_specs in FLAVORS.items():
        control.add_flavor(name, name=name, vcpus=2, ram=chance.choice((512, 1024)))
        if extra_specs:
            assert control.admin.post(f"/flavors/{name}/os-extra_specs", {"extra_specs": extra_specs}).status == 200
    for number in range(chance.randint(0, 2)):
        zone = {"availability_zone": f"z{number}"} if chance.random() < 0.5 else {}
        made = control.admin.post("/os-aggregates", {"aggregate": {"name": f"a{number}", **zone}}).body["aggregate"]
        action = f"/os-aggregates/{made['id']}/action"
        host = f"node{min(number, len(hosts) - 1)}"
        assert control.admin.post(action, {"add_host": {"host": host}}).status in {200, 409}
        if metadata := chance.choice(METADATA):
            assert control.admin.post(action, {"set_metadata": {"metadata": metadata}}).status == 200
    return control


def counted(control: Control, group: str | None) -> dict[str, int]:
    body = {"image": IMAGE} | ({"group": group} if group else {})
    answer = control.operator.post("/capacity", body)
    assert answer.status == 200, answer.body
    fits: dict[str, int] = answer.body["fits"]
    return fits


def created_until_refused(control: Control, flavor: str, group: str | None) -> int:
    for number in range(100):
        hints = {"group": group} if group else None
        if control.boot(control.admin, hints=hints, flavorRef=flavor)["status"] != "ACTIVE":
            return number
    raise AssertionError("no server was refused")


def mix_until_refused(control: Control, shares: dict[str, int], group: str | None) -> tuple[dict[str, int], str]:
    """Create servers until one is refused, each of the flavor that lacks most of its share. Return the refused one."""
    counts = dict.fromkeys(shares, 0)
    hints = {"group": group} if group else None
    for number in range(1, 100):
        lacks = {name: Fraction(share * number, sum(shares.values())) - counts[name] for name, share in shares.items()}
        flavor = max(lacks, key=lambda name: lacks[name])
        if control.boot(control.admin, hints=hints, flavorRef=flavor)["status"] != "ACTIVE":
            return counts, flavor
        counts[flavor] += 1
    raise AssertionError("no server was refused")


def random_group(chance: random.Random, control: Control, name: str) -> str | None:
    policy = chance.choice(POLICIES)
    if policy is None:
        return None
    made = control.admin.post("/os-server-groups", {"server_group": {"name": name, "policy": policy}})
    uuid: str = made.body["server_group"]["id"]
    return uuid


def check_mix(chance: random.Random, control: Control) -> None:
    shares = {name: chance.randint(1, 4) for name in chance.sample(sorted(FLAVORS), chance.randint(2, 3))}
    group = random_group(chance, control, "mix")
    mix = [{"flavor": name, "share": share} for name, share in shares.items()]
    body = {"image": IMAGE, "mix": mix} | ({"group": group} if group else {})
    answer = control.operator.post("/capacity", body)
    assert answer.status == 200, answer.body
    counts, refused = mix_until_refused(control, shares, group)
    assert answer.body["fits"] == counts, body
    assert answer.body["next"][0]["flavor"] == refused


@pytest.mark.parametrize("seed", range(sampled(200, sample=4)))
def test_capacity_of_a_random_mix(new_control: NewControl, seed: int) -> None:
    chance = random.Random(1000 + seed)
    control = random_control(chance, new_control)
    check_mix(chance, control)
    check_mix(chance, control)


@pytest.mark.parametrize("seed", range(sampled(200, sample=4)))
def test_capacity_of_a_random_cloud(new_control: NewControl, seed: int) -> None:
    chance = random.Random(seed)
    control = random_control(chance, new_control)
    for flavor in chance.sample(sorted(FLAVORS), 3):
        group = random_group(chance, control, flavor)
        expected = counted(control, group)
        assert created_until_refused(control, flavor, group) == expected[flavor], (flavor, group, expected)
        assert counted(control, group)[flavor] == 0
