# SPDX-License-Identifier: Apache-2.0
"""Detection of a host's capabilities, by queries to libvirt and the emulator."""

import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import libvirt

from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.compute.virt.libvirt.host.capabilities_xml import HostFacts, read_capabilities
from kilonova.compute.virt.libvirt.host.cpu_features import features_of, guest_cpu, host_cpu
from kilonova.compute.virt.libvirt.host.emulator import device_types
from kilonova.config.libvirt import LibvirtSettings

LOG = logging.getLogger(__name__)
_EXPAND = libvirt.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES


def probe(
    connection: Any, capabilities: str, host: HostFacts, virt_type: str, settings: LibvirtSettings
) -> HostCapabilities:
    """Return the capabilities of a host.

    ``capabilities``: XML of ``getCapabilities``. ``host``: the same data, parsed.
    The call takes seconds if libvirt has not probed its emulators yet. Raises: libvirtError, DriverError.
    """

    def domain(machine: str | None) -> str:
        return str(connection.getDomainCapabilities(host.emulator, host.architecture, machine, virt_type, 0))

    try:
        default = domain(None)
    except libvirt.libvirtError as error:
        LOG.error("libvirt cannot create %s guests with %s on this host: %s", host.architecture, virt_type, error)  # noqa: TRY400
        raise
    domains = {}
    for machine in sorted(set(host.machines.values())):
        try:
            domains[machine] = domain(machine)
        except libvirt.libvirtError as error:
            LOG.debug("Machine type %s is not available: %s", machine, error)
    found = read_capabilities(
        host,
        domains,
        device_types(host.emulator),
        default=default,
        virt_type=virt_type,
        libvirt_version=connection.getLibVersion(),
        qemu_version=connection.getVersion(),
    )
    asked = guest_cpu(default, host.architecture, settings)
    features: frozenset[str] = frozenset()
    if asked is not None:
        features = _expanded(
            asked,
            lambda cpus: connection.baselineHypervisorCPU(
                host.emulator, host.architecture, None, virt_type, cpus, _EXPAND
            ),
            settings.cpu_model_extra_flags,
        )
    own = host_cpu(capabilities)
    if own is not None:
        every = host.cpu.features | _expanded(own, lambda cpus: connection.baselineCPU(cpus, _EXPAND))
        found = replace(found, cpu=replace(found.cpu, features=every))
    return replace(found, guest_features=features)


def _expanded(cpu: str, ask: Any, extra_flags: Iterable[str] = ()) -> frozenset[str]:
    """Return all features of a CPU, or no features if libvirt does not support queries for this type of CPU."""
    try:
        return features_of(ask([cpu]), cpu, extra_flags)
    except libvirt.libvirtError as error:
        LOG.debug("The CPU features cannot be determined: %s", error)
        return frozenset()
