# SPDX-License-Identifier: Apache-2.0
"""Inventories, supported instance types and CPU description of a libvirt host, for its report."""

from collections.abc import Mapping
from typing import Any

from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.compute.virt.libvirt.host.host_cells import GuestCpus
from kilonova.compute.virt.libvirt.host.models import guest_architectures, hypervisor_types
from kilonova.config.host_resources import HostResourceSettings
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.provider import Inventory


def inventories_of(
    cpus: GuestCpus, memory_mib: int, disk_gib: int, ratios: AllocationRatios, settings: HostResourceSettings
) -> tuple[Inventory, ...]:
    """Return the inventories of a host, except those with a total of 0.

    The reserved amount of an inventory is at most its total.
    """

    def inventory(name: str, total: int, reserved: int, ratio: float) -> Inventory:
        return Inventory(name, total, min(reserved, total), 1, total, 1, ratio)

    every = (
        inventory("VCPU", len(cpus.shared), settings.reserved_host_cpus, ratios.cpu),
        inventory("PCPU", len(cpus.dedicated), 0, 1.0),
        inventory("MEMORY_MB", memory_mib, ratios.reserved_memory_mib, ratios.memory),
        inventory("DISK_GB", disk_gib, -(-settings.reserved_host_disk_mib // 1024), ratios.disk),
    )
    return tuple(each for each in every if each.total > 0)


def supported_instances(host: HostCapabilities) -> tuple[tuple[str, str, str], ...]:
    """Return the supported kinds of guests: (architecture, hypervisor type, vm mode)."""
    architectures, types = guest_architectures(host), hypervisor_types(host)
    found = {
        (kind.architecture, kept, kind.vm_mode)
        for kind in host.kinds
        if kind.architecture in architectures
        for kept in kind.domain_types & types
    }
    return tuple(sorted(found))


def cpu_info(host: HostCapabilities) -> Mapping[str, Any]:
    """Return the description of the host's CPUs, in Nova's form of ``cpu_info``."""
    cpu = host.cpu
    return {
        "arch": host.architecture,
        "model": cpu.model,
        "vendor": cpu.vendor,
        "topology": {
            "cells": max(1, len(host.cells)),
            "sockets": cpu.sockets,
            "cores": cpu.dies * cpu.cores,
            "threads": cpu.threads,
        },
        "features": sorted(cpu.features),
    }
