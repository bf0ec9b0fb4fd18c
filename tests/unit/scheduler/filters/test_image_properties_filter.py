# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest
from tests.unit.scheduler.small_cloud import host, request, table

from kilonova.model.host import Capabilities
from kilonova.scheduler.filters import ImagePropertiesFilter
from kilonova.scheduler.settings import SchedulerConfig

KVM = Capabilities(
    hypervisor_version=6_002_001,
    supported_instances=(("x86_64", "kvm", "hvm"), ("i686", "qemu", "hvm")),
    cpu_info={"maxphysaddr": {"bits": 46}},
)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (None, True),
        ({}, True),
        ({"hw_architecture": "x86_64"}, True),
        ({"hw_architecture": "amd64"}, True),
        ({"hw_architecture": "i586"}, True),
        ({"architecture": "aarch64"}, False),
        ({"hw_architecture": "unheard-of"}, False),
        ({"hw_architecture": "x86_64", "img_hv_type": "kvm", "hw_vm_mode": "hvm"}, True),
        ({"hw_architecture": "x86_64", "img_hv_type": "qemu"}, False),
        ({"hypervisor_type": "KVM", "vm_mode": "hv"}, True),
        ({"img_hv_type": "xapi"}, False),
        ({"hw_vm_mode": "baremetal"}, True),
        ({"hw_vm_mode": "pv"}, False),
        ({"img_hv_requested_version": ">=9.0"}, True),
        ({"hw_maxphysaddr_bits": "60"}, True),
        ({"img_hv_type": "kvm", "img_hv_requested_version": ">=6.0, <7.0"}, True),
        ({"img_hv_type": "kvm", "hypervisor_version_requires": ">6.2.1"}, False),
        ({"img_hv_type": "kvm", "img_hv_requested_version": "==6.2.1,!=6.2.2"}, True),
        ({"img_hv_type": "kvm", "img_hv_requested_version": "<=6.2"}, False),
        ({"img_hv_type": "kvm", "img_hv_requested_version": "six"}, False),
        ({"img_hv_type": "kvm", "hw_maxphysaddr_bits": "46"}, True),
        ({"img_hv_type": "kvm", "hw_maxphysaddr_bits": "47"}, False),
        ({"img_hv_type": "kvm", "hw_maxphysaddr_bits": "many"}, False),
    ],
)
def test_the_image_must_fit_one_triple_of_the_host(properties: dict[str, Any] | None, expected: bool) -> None:
    hosts = table(host(capabilities=KVM))
    assert ImagePropertiesFilter().passes(hosts, request(properties=properties)).tolist() == [expected]


@pytest.mark.parametrize("properties", [{"img_hv_requested_version": ">=99"}, {"hw_maxphysaddr_bits": "99"}, {}])
def test_a_host_that_reports_no_version_and_no_bits_passes_these(properties: dict[str, str]) -> None:
    hosts = table(
        host("a", capabilities=Capabilities(supported_instances=(("x86_64", "kvm", "hvm"),))),
        host(
            "b",
            capabilities=Capabilities(supported_instances=(("x86_64", "kvm", "hvm"),), cpu_info={"maxphysaddr": 1}),
        ),
    )
    spec = request(properties={"img_hv_type": "kvm", **properties})
    assert ImagePropertiesFilter().passes(hosts, spec).tolist() == [True, True]


def test_a_host_that_advertises_nothing_fits_no_image_that_asks() -> None:
    hosts = table(host(capabilities=Capabilities()))
    assert ImagePropertiesFilter().passes(hosts, request(properties={"img_hv_type": "kvm"})).tolist() == [False]


def test_the_default_architecture_stands_in_for_one_the_image_does_not_name() -> None:
    rule = ImagePropertiesFilter.configured(SchedulerConfig(image_properties_default_architecture="aarch64"))
    hosts = table(host(capabilities=KVM))
    assert rule.passes(hosts, request()).tolist() == [False]
    assert rule.passes(hosts, request(properties={"hw_architecture": "x86_64"})).tolist() == [True]
