# SPDX-License-Identifier: Apache-2.0
"""The amounts that a libvirt host reports, and what it says of its guests and CPUs."""

from kilonova.compute.virt.libvirt.host.host_cells import GuestCpus
from kilonova.compute.virt.libvirt.host.inventories import cpu_info, inventories_of, supported_instances
from kilonova.config.host_resources import HostResourceSettings
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.provider import Inventory
from support.libvirt_hosts import arm, debian_12, two_sockets


def test_shared_and_dedicated_cpus_memory_and_disk() -> None:
    cpus = GuestCpus(frozenset({0, 1}), frozenset({2, 3, 4}))
    ratios = AllocationRatios(cpu=16.0, memory=1.5, disk=2.0, reserved_memory_mib=1024)
    settings = HostResourceSettings(reserved_host_disk_mib=1500)
    assert inventories_of(cpus, 8192, 100, ratios, settings) == (
        Inventory("VCPU", 2, 0, 1, 2, 1, 16.0),
        Inventory("PCPU", 3, 0, 1, 3, 1, 1.0),
        Inventory("MEMORY_MB", 8192, 1024, 1, 8192, 1, 1.5),
        Inventory("DISK_GB", 100, 2, 1, 100, 1, 2.0),
    )


def test_classes_of_which_there_is_nothing_are_left_out_and_no_more_is_reserved_than_there_is() -> None:
    cpus = GuestCpus(frozenset(), frozenset({2}))
    found = inventories_of(cpus, 256, 0, AllocationRatios(), HostResourceSettings())
    assert [(each.resource_class, each.reserved) for each in found] == [("PCPU", 0), ("MEMORY_MB", 256)]


def test_reserved_cpus() -> None:
    found = inventories_of(
        GuestCpus(frozenset({0, 1})), 0, 0, AllocationRatios(), HostResourceSettings(reserved_host_cpus=1)
    )
    assert [(each.resource_class, each.total, each.reserved) for each in found] == [("VCPU", 2, 1)]


def test_only_kinds_of_guests_that_are_really_made_are_reported() -> None:
    assert supported_instances(debian_12()) == (("i686", "qemu", "hvm"), ("x86_64", "qemu", "hvm"))
    assert supported_instances(two_sockets()) == (("x86_64", "kvm", "hvm"), ("x86_64", "qemu", "hvm"))
    assert supported_instances(arm()) == (("aarch64", "kvm", "hvm"), ("aarch64", "qemu", "hvm"))


def test_the_cpus_in_novas_words() -> None:
    assert cpu_info(two_sockets()) == {
        "arch": "x86_64",
        "model": "EPYC-Milan",
        "vendor": "AMD",
        "topology": {"cells": 2, "sockets": 1, "cores": 2, "threads": 2},
        "features": ["aes", "ht", "npt", "svm"],
    }
