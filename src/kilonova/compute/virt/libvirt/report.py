# SPDX-License-Identifier: Apache-2.0
"""Report of a libvirt host: its capabilities and resources, checked at the agent's start and about every minute."""

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import libvirt

from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.connection import explained
from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.compute.virt.libvirt.host.capabilities_xml import HostFacts, read_host
from kilonova.compute.virt.libvirt.host.host_cells import (
    cells_for_guests,
    cpus_for_guests,
    near_cards,
    read_reserved_pages,
    require_consistent,
)
from kilonova.compute.virt.libvirt.host.inventories import cpu_info, inventories_of, supported_instances
from kilonova.compute.virt.libvirt.host.monitors import CpuMonitor, measures_cpus
from kilonova.compute.virt.libvirt.host.pci_devices import (
    PciDevice,
    pools_of,
    read_device,
    read_device_specs,
    read_mac,
)
from kilonova.compute.virt.libvirt.host.probe import probe
from kilonova.compute.virt.libvirt.host.traits import traits_of
from kilonova.compute.virt.libvirt.host.virt_type import choose_virt_type
from kilonova.compute.virt.libvirt.late_check import why_unusable
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import ConfigurationError, DriverError
from kilonova.model.host import Capabilities, NodeReport
from kilonova.model.host_devices import HostDevices
from kilonova.model.pci import PciPool

LOG = logging.getLogger(__name__)
#: Seconds after which libvirt, QEMU and the hardware are checked for changes.
_LOOK_AGAIN_S = 60.0
_ALL_CPUS = -1
_PCI_DEVICES = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_PCI_DEV
_NETWORK_DEVICES = libvirt.VIR_CONNECT_LIST_NODE_DEVICES_CAP_NET


class HostReport:
    """Report of one host, with cached capabilities.

    Calls take milliseconds, except the first call, and the first call after a change of libvirt or QEMU.
    ``now``: a clock. Raises: ConfigurationError if the operator's settings contradict each other.
    """

    def __init__(
        self, setup: HostSetup, settings: LibvirtSettings, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._setup = setup
        self._settings = settings
        self._now = now
        require_consistent(setup.resources)
        self._reserved_pages = read_reserved_pages(setup.resources.reserved_huge_pages)
        self._device_specs = read_device_specs(setup.resources.device_spec)
        self._measures = measures_cpus(setup.resources.compute_monitors)
        self._monitor = CpuMonitor()
        self._lock = threading.Lock()
        self._virt_type: str | None = None
        self._known: tuple[tuple[str, int, int], HostCapabilities] | None = None
        self._looked_at = 0.0
        self._devices: dict[str, PciDevice | None] = {}
        self._known_pools: tuple[PciPool, ...] = ()

    def capabilities(self, connection: Any) -> HostCapabilities:
        """Return the capabilities of the host. ``connection``: a ``virConnect``.

        Raises: DriverError; ConfigurationError if a setting, such as KVM, does not work on this host.
        """
        with self._lock, explained("report its capabilities"):
            if self._known is not None and self._now() < self._looked_at + _LOOK_AGAIN_S:
                return self._known[1]
            return self._look(connection)

    def report(self, connection: Any) -> NodeReport:
        """Return the report of the host for the scheduler. Raises: DriverError, ConfigurationError."""
        with self._lock, explained("report its resources"):
            host = self._look(connection)
            resources = self._setup.resources
            cpus = cpus_for_guests(_online_cpus(connection), resources)
            cells = cells_for_guests(host.cells, cpus, self._reserved_pages)
            return NodeReport(
                host=self._setup.host,
                hypervisor_hostname=connection.getHostname(),
                capabilities=Capabilities(
                    hypervisor_type=connection.getType(),
                    hypervisor_version=host.qemu_version,
                    supported_instances=supported_instances(host),
                    cpu_info=cpu_info(host),
                ),
                inventories=inventories_of(
                    cpus, _memory_mib(connection), self._disk_gib(), self._setup.ratios, resources
                ),
                traits=traits_of(host, self._settings, resources.image_type_exclude_list),
                host_ip=resources.my_ip or own_address(),
                metrics=self._metrics(connection),
                devices=HostDevices(near_cards(cells, resources), self._pools(connection)),
            )

    def _look(self, connection: Any) -> HostCapabilities:
        """Return the capabilities of the host, probed again if libvirt's capabilities XML or a version has changed."""
        text = connection.getCapabilities()
        said = text, connection.getLibVersion(), connection.getVersion()
        if self._known is None or self._known[0] != said:
            facts = _facts(text)
            found = probe(connection, text, facts, self._choose_virt_type(facts), self._settings)
            LOG.info(
                "libvirt %s, QEMU %s, %s: %d machine types, guests run with %s",
                *(_shown(version) for version in (found.libvirt_version, found.qemu_version)),
                found.architecture,
                len(set(facts.machines.values())),
                found.virt_type,
            )
            self._require_usable(found)
            self._known = said, found
        self._looked_at = self._now()
        return self._known[1]

    def _require_usable(self, found: HostCapabilities) -> None:
        """Check that the operator's settings work on this host. Raises: ConfigurationError at the first check.

        The first check is made when the agent starts. Later failures are only logged: the agent continues to manage its
        guests, and it may still be able to create some guests.
        """
        reason = why_unusable(found, self._settings)
        if reason is not None:
            if self._known is None:
                raise ConfigurationError(reason)
            LOG.error("%s", reason)

    def _choose_virt_type(self, facts: HostFacts) -> str:
        """Return the virtualization type, kvm or qemu. It is chosen once, since existing guests cannot be converted."""
        if self._virt_type is None:
            own = next(kind for kind in facts.kinds if kind.emulator == facts.emulator)
            self._virt_type = choose_virt_type(
                self._settings.virt_type, facts.emulator, facts.architecture, own.domain_types
            )
        return self._virt_type

    def _disk_gib(self) -> int:
        """Return the size of the file system that holds the disks of guests, in GiB. Raises: DriverError."""
        try:
            found = os.statvfs(self._setup.folder)
        except OSError as error:
            raise DriverError(f"The folder of guests cannot be read: {error.strerror}.") from error
        return found.f_blocks * found.f_frsize >> 30

    def _metrics(self, connection: Any) -> Mapping[str, float]:
        if not self._measures:
            return {}
        times = connection.getCPUStats(_ALL_CPUS)
        return self._monitor.measure(times, connection.getInfo()[3])

    def _pools(self, connection: Any) -> tuple[PciPool, ...]:
        """Return the PCI devices for guests. They are described once, and again when a device was added or removed.

        A new virtual function changes the description of its physical function, so all are read again.
        """
        if not self._device_specs:
            return ()
        listed = {each.name(): each for each in connection.listAllDevices(_PCI_DEVICES)}
        if listed.keys() != self._devices.keys():
            self._devices = {name: read_device(each.XMLDesc(0)) for name, each in listed.items()}
            texts = [each.XMLDesc(0) for each in connection.listAllDevices(_NETWORK_DEVICES)]
            by_name = dict(found for text in texts if (found := read_mac(text)) is not None)
            known = {name: device for name, device in self._devices.items() if device is not None}
            macs = {known[name].address: mac for name, mac in by_name.items() if name in known}
            self._known_pools = pools_of(known.values(), self._device_specs, macs)
        return self._known_pools


def own_address() -> str:
    """Return the IPv4 address from which this host sends packets, or the loopback address if it has no network."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe_socket:
        try:
            probe_socket.connect(("192.0.2.1", 9))  # RFC 5737 test address; connect() of a UDP socket sends no packet
        except OSError:
            return "127.0.0.1"
        return str(probe_socket.getsockname()[0])


def _online_cpus(connection: Any) -> frozenset[int]:
    _, online, _ = connection.getCPUMap(0)
    return frozenset(number for number, is_online in enumerate(online) if is_online)


def _memory_mib(connection: Any) -> int:
    """Return the memory of the host. ``getInfo`` is not used: its numbers are wrong inside some virtual machines."""
    return int(connection.getMemoryStats(libvirt.VIR_NODE_MEMORY_STATS_ALL_CELLS)["total"]) // 1024


def _shown(version: int) -> str:
    return f"{version // 1_000_000}.{version // 1000 % 1000}.{version % 1000}"


def _facts(text: str) -> HostFacts:
    try:
        return read_host(text)
    except ValueError as error:
        raise DriverError(f"The hypervisor cannot create guests: {error}.") from error
