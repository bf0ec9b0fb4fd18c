# SPDX-License-Identifier: Apache-2.0
"""Generated domains are valid: against libvirt's schema, when defined, and when started."""

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4
from xml.etree import ElementTree as ET

import libvirt
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings

from kilonova.compute.virt.libvirt.domain.description import DiskFile, DiskRole, Domain
from kilonova.compute.virt.libvirt.domain.domain_xml import domain_xml
from kilonova.compute.virt.libvirt.domain.hardware import describe
from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.compute.virt.libvirt.host.capabilities_xml import read_capabilities, read_host
from kilonova.compute.virt.libvirt.host.emulator import device_types
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.guest_devices import GuestCell, GuestDevice, GuestDevices
from kilonova.model.instance import GuestSpec
from kilonova.model.network_info import Vif, VifNetwork
from support import random_guests
from support.guest_descriptions import guest_of
from support.libvirt_node import LibvirtNode

_EVERYTHING_ELSE = libvirt.VIR_DOMAIN_UNDEFINE_NVRAM | libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
_TPMS = LibvirtSettings(swtpm_enabled=True)


@dataclass(frozen=True)
class Place:
    """A libvirtd, its capabilities, and a folder for guests' files."""

    connection: Any
    host: HostCapabilities
    folder: Path

    def describe(self, guest: GuestSpec, disks: tuple[DiskFile, ...] = (), **more: Any) -> Domain:
        more.setdefault("settings", _TPMS)
        more.setdefault("host", self.host)
        own = tuple(replace(disk, path=self.folder / disk.path.name) for disk in disks)
        root = DiskFile(DiskRole.ROOT, self.folder / "disk", "qcow2")
        guest = replace(guest, uuid=str(uuid4()))
        return describe(guest, disks=own or (root,), console_log=self.folder / "console.log", **more)

    def define(self, domain: Domain) -> Any:
        return self.connection.defineXMLFlags(domain_xml(domain), libvirt.VIR_DOMAIN_DEFINE_VALIDATE)

    @contextlib.contextmanager
    def defined(self, domain: Domain) -> Iterator[Any]:
        found = self.define(domain)
        try:
            yield found
        finally:
            if found.isActive():
                found.destroy()
            found.undefineFlags(_EVERYTHING_ELSE)


@pytest.fixture(scope="module")
def place(libvirt_node: LibvirtNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    connection = libvirt.open(libvirt_node.uri)
    facts = read_host(connection.getCapabilities())
    domains = {
        name: connection.getDomainCapabilities(facts.emulator, facts.architecture, name, "qemu", 0)
        for name in {facts.machines["pc"], facts.machines["q35"]}
    }
    host = read_capabilities(
        facts,
        domains,
        device_types(facts.emulator),
        default=domains[facts.machines["pc"]],
        virt_type="qemu",
        libvirt_version=connection.getLibVersion(),
        qemu_version=connection.getVersion(),
    )
    folder = tmp_path_factory.mktemp("domains")
    for name in ("disk", "disk.rescue", "disk.eph0"):
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", folder / name, "8M"], check=True)
    for name in ("disk.config", "disk.swap"):
        (folder / name).write_bytes(bytes(65536))
    yield Place(connection, host, folder)
    connection.close()


#: Sets of devices that cover each device once on each machine type with few starts.
_ROWS: dict[str, tuple[tuple[dict[str, str], dict[str, str]], ...]] = {
    board: (
        (
            {"hw:cpu_sockets": "1", "hw:cpu_threads": "2", "hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"},
            {"hw_disk_bus": "scsi", "hw_scsi_model": "virtio-scsi", "hw_video_model": "qxl", "hw_sound_model": "ich6"},
        ),
        (
            {"hw:watchdog_action": "pause", "hw_rng:rate_bytes": "1024", "hw_rng:rate_period": "100"},
            {
                "hw_disk_bus": "sata",
                "hw_cdrom_bus": "scsi",
                "hw_video_model": "vga",
                "hw_sound_model": "ich9",
                "hw_input_bus": "virtio",
                "hw_qemu_guest_agent": "yes",
                "hw_serial_port_count": "4",
            },
        ),
        (
            {"hw:watchdog_action": "poweroff", "hw:hide_hypervisor_id": "1", "hw_video:ram_max_mb": "64"},
            {
                "hw_disk_bus": "usb",
                "hw_usb_model": "qemu-xhci",
                "hw_video_model": "cirrus",
                "hw_video_ram": "16",
                "hw_sound_model": "usb",
                "hw_input_bus": "usb",
                "os_type": "windows",
                "hw_boot_menu": "yes",
            },
        ),
        (
            {"hw:watchdog_action": "reset", "hw:maxphysaddr_mode": "emulate", "hw:maxphysaddr_bits": "40"},
            {"hw_disk_bus": "scsi", "hw_scsi_model": "lsilogic", "hw_video_model": "bochs", "hw_sound_model": "ac97"},
        ),
        (
            {"quota:disk_read_iops_sec": "1000", "quota:disk_total_bytes_sec": "1000000"},
            {"hw_disk_bus": "scsi", "hw_scsi_model": "lsisas1068", "hw_video_model": "vmvga", "hw_sound_model": "sb16"},
        ),
        (
            {"hw_rng:allowed": "no", "hw:pmu": "no", "quota:cpu_shares": "512"},
            {"hw_disk_bus": "fdc", "hw_usb_model": "nec-xhci", "hw_video_model": "none", "hw_sound_model": "es1370"},
        ),
        (
            {"hw:tpm_version": "2.0"},
            {"hw_firmware_type": "uefi", "hw_disk_bus": "scsi", "hw_scsi_model": "lsisas1078"},
        ),
        ({}, {"hw_firmware_type": "uefi", "hw_firmware_stateless": "yes", "hw_cdrom_bus": "usb"}),
        *((({}, {"hw_disk_bus": "ide"}),) if board == "pc" else ()),
        *(
            (
                ({"hw:viommu_model": "intel", "os:secure_boot": "required"}, {"hw_firmware_type": "uefi"}),
                ({"hw:viommu_model": "virtio"}, {"hw_cdrom_bus": "sata"}),
            )
            if board == "q35"
            else ()
        ),
    )
    for board in ("pc", "q35")
}


@pytest.mark.parametrize(("board", "row"), [(board, row) for board, rows in _ROWS.items() for row in range(len(rows))])
def test_every_device_is_one_that_qemu_starts_with(place: Place, board: str, row: int) -> None:
    specs, properties = _ROWS[board][row]
    guest = guest_of(specs, {"hw_machine_type": board, **properties}, vcpus=2)
    disks = (_disk(DiskRole.ROOT), _disk(DiskRole.CONFIG))
    with place.defined(place.describe(guest, disks)) as domain:
        domain.create()
        assert domain.isActive()


def test_a_guest_with_pinned_cells_starts(place: Place) -> None:
    if len(place.host.cells[0].cpus) < 2:
        pytest.fail("this test needs a machine with two CPUs")
    first, second = sorted(cpu.id for cpu in place.host.cells[0].cpus)[:2]
    cell = place.host.cells[0].id
    cells = (
        GuestCell(cell, frozenset({0}), 32, ((0, first),), frozenset({second})),
        GuestCell(cell, frozenset({1}), 32, page_size_kib=4),
    )
    with place.defined(place.describe(guest_of(vcpus=2, reserved=GuestDevices(cells)))) as domain:
        domain.create()
        pinned, floating = domain.vcpuPinInfo()
        assert [cpu for cpu, used in enumerate(pinned) if used] == [first]
        assert floating[second]
        assert [cpu for cpu, used in enumerate(domain.emulatorPinInfo()) if used] == [second]


def _disk(role: DiskRole) -> DiskFile:
    name, format_ = {
        DiskRole.ROOT: ("disk", "qcow2"),
        DiskRole.CONFIG: ("disk.config", "raw"),
        DiskRole.RESCUE: ("disk.rescue", "qcow2"),
    }[role]
    return DiskFile(role, Path(name), format_)


@pytest.mark.parametrize(
    "rescue",
    [
        {},
        {"hw_rescue_device": "disk"},
        {"hw_rescue_device": "disk", "hw_rescue_bus": "usb"},
        {"hw_rescue_device": "cdrom"},
        {"hw_rescue_device": "floppy"},
    ],
)
def test_a_guest_is_started_from_its_rescue_disk(place: Place, rescue: dict[str, str]) -> None:
    disks = (_disk(DiskRole.ROOT), _disk(DiskRole.CONFIG), _disk(DiskRole.RESCUE))
    with place.defined(place.describe(guest_of(), disks, rescue=rescue)) as domain:
        domain.create()
        assert domain.isActive()


#: Guests with features that test machines lack: they are defined and checked against the schema, but not started.
_ONLY_DEFINED: dict[str, Callable[[], GuestSpec]] = {
    "huge pages": lambda: guest_of(reserved=GuestDevices((GuestCell(0, frozenset({0}), 64, page_size_kib=2048),))),
    "another cell": lambda: guest_of(reserved=GuestDevices((GuestCell(1, frozenset({0}), 64),))),
    "a device": lambda: guest_of(reserved=GuestDevices((), (GuestDevice("0000:81:00.1", "8086", "154d", "type-VF"),))),
    "real time": lambda: guest_of(
        {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"},
        vcpus=2,
        reserved=GuestDevices((GuestCell(0, frozenset({0, 1}), 64, ((0, 0), (1, 1))),)),
    ),
    "locked memory": lambda: guest_of({"hw:locked_memory": "yes", "hw:mem_page_size": "small"}),
    "a share of CPUs": lambda: guest_of({"quota:cpu_period": "10000", "quota:cpu_quota": "5000"}),
}


@pytest.mark.parametrize("what", _ONLY_DEFINED)
def test_what_this_machine_lacks_is_defined_all_the_same(place: Place, what: str) -> None:
    with place.defined(place.describe(_ONLY_DEFINED[what]())) as domain:
        assert not domain.isActive()


def _port(number: int, **fields: Any) -> Vif:
    port_id = str(UUID(int=number))
    return Vif(port_id=port_id, mac=f"fa:16:3e:00:00:{number:02x}", network=VifNetwork(id="n", label="n"), **fields)


def test_ports_of_every_type_can_be_defined(place: Place) -> None:
    userspace = {"datapath_type": "netdev", "bridge_name": "br-int"}
    vifs = (
        _port(1, vif_type="ovs", details=userspace),
        _port(2, vif_type="bridge"),
        _port(3, vif_type="macvtap", details={"macvtap_source": "lo", "macvtap_mode": "bridge"}),
        _port(4, vif_type="hw_veb", vnic_type="direct", profile={"pci_slot": "0000:81:00.1"}, details={"vlan": 7}),
        _port(5, vif_type="hostdev_physical", vnic_type="direct-physical", profile={"pci_slot": "0000:82:00.0"}),
    )
    guest = guest_of({"hw:vif_multiqueue_enabled": "yes", "hw:virtio_packed_ring": "yes"}, vcpus=2, vifs=vifs)
    with place.defined(place.describe(guest)) as domain:
        text = domain.XMLDesc()
        assert all(f"ua-{vif.port_id}" in text for vif in vifs)
        assert "queues='2'" in text


def test_more_interfaces_leave_the_places_of_the_first(place: Place) -> None:
    """The guest finds an interface again by its PCI slot."""
    slots = []
    for count in (1, 3):
        vifs = tuple(_port(number, vif_type="ovs") for number in range(count))
        with place.defined(place.describe(guest_of(vifs=vifs))) as domain:
            found = ET.fromstring(domain.XMLDesc()).findall("devices/interface/address")
            slots.append([each.get("slot") for each in found])
    assert slots == [["0x03"], ["0x03", "0x04", "0x05"]]


_MANY = hypothesis_settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


@_MANY
@given(random_guests.guests, random_guests.disks, random_guests.rescues, random_guests.settings, random_guests.consoles)
def test_whatever_is_described_can_be_defined(
    place: Place,
    guest: GuestSpec,
    disks: tuple[DiskFile, ...],
    rescue: dict[str, str],
    settings: LibvirtSettings,
    consoles: ConsoleSettings,
) -> None:
    try:
        domain = place.describe(
            guest, disks, rescue=rescue, settings=settings, consoles=consoles, serial_tcp_ports=(10000, 10001)
        )
    except UnsupportedGuest:
        return
    with place.defined(domain) as found:
        assert found.name() == guest.name


@_MANY
@given(random_guests.guests, random_guests.disks, random_guests.settings)
def test_whatever_is_described_for_kvm_can_be_defined(
    place: Place, guest: GuestSpec, disks: tuple[DiskFile, ...], settings: LibvirtSettings
) -> None:
    """A libvirtd without KVM accepts the definition but cannot start the domain."""
    by_kvm = replace(place.host, virt_type="kvm", cpu_modes=frozenset())
    try:
        domain = place.describe(guest, disks, settings=settings, host=by_kvm)
    except UnsupportedGuest:
        return
    with place.defined(domain) as found:
        assert not found.isActive()


def test_the_schema_is_looked_at(place: Place) -> None:
    """Proof that the tests above check the schema."""
    domain = place.describe(guest_of())
    for virt_type in ("qemu", "kvm"):
        wrong = domain_xml(replace(domain, virt_type=virt_type)).replace("<on_crash>", "<colour>red</colour><on_crash>")
        with pytest.raises(libvirt.libvirtError) as refused:
            place.connection.defineXMLFlags(wrong, libvirt.VIR_DOMAIN_DEFINE_VALIDATE)
        assert refused.value.get_error_code() == libvirt.VIR_ERR_XML_INVALID_SCHEMA
