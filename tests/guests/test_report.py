# SPDX-License-Identifier: Apache-2.0
"""Host report of the test machine, from a real libvirtd and QEMU."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import libvirt
import pytest

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.host_setup import HostSetup
from kilonova.compute.virt.libvirt.host.emulator import device_types
from kilonova.compute.virt.libvirt.host.virt_type import try_guest
from kilonova.compute.virt.libvirt.report import HostReport
from kilonova.config.host_resources import HostResourceSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import ConfigurationError, DriverError
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.host import NodeReport
from support.libvirt_node import LibvirtNode

_EMULATED = LibvirtSettings(virt_type="qemu")


def _setup(folder: Path, **resources: Any) -> HostSetup:
    images = HostImages(folder / "images", max_bytes=0)
    return HostSetup("host1", folder, images, AllocationRatios(), HostResourceSettings(**resources))


def _amounts(report: NodeReport) -> dict[str, int]:
    return {each.resource_class: each.total for each in report.inventories}


def test_the_report_is_that_of_this_machine(connection: Any, tmp_path: Path) -> None:
    report = HostReport(_setup(tmp_path), _EMULATED).report(connection)
    memory_kib = int(Path("/proc/meminfo").read_text().split()[1])
    disk = os.statvfs(tmp_path)
    assert _amounts(report) == {
        "VCPU": os.cpu_count(),
        "MEMORY_MB": memory_kib // 1024,
        "DISK_GB": disk.f_blocks * disk.f_frsize // 2**30,
    }
    assert report.host == "host1"
    assert report.hypervisor_hostname == connection.getHostname()
    assert (report.capabilities.hypervisor_type, report.capabilities.hypervisor_version) == (
        "QEMU",
        connection.getVersion(),
    )
    own = report.capabilities.cpu_info["arch"]
    assert (own, "qemu", "hvm") in report.capabilities.supported_instances
    assert "kvm" not in {kind for _, kind, _ in report.capabilities.supported_instances}
    assert report.capabilities.cpu_info["features"]
    assert {cpu for cell in report.devices.cells for cpu in cell.cpuset} == set(range(os.cpu_count() or 0))


def test_its_traits_are_what_qemu_and_libvirt_have(connection: Any, tmp_path: Path) -> None:
    host = HostReport(_setup(tmp_path), _EMULATED)
    traits = set(host.report(connection).traits)
    assert {"COMPUTE_NET_VIF_MODEL_VIRTIO", "COMPUTE_NET_VIF_MODEL_E1000E", "COMPUTE_STORAGE_BUS_IDE"} <= traits
    assert {"COMPUTE_GRAPHICS_MODEL_VGA", "COMPUTE_IMAGE_TYPE_QCOW2", "HW_ARCH_X86_64", "HW_CPU_X86_SSE2"} <= traits
    assert "COMPUTE_NET_VIF_MODEL_SPAPR_VLAN" not in traits
    machines = host.capabilities(connection).machines
    assert "ide" in machines["pc"].disk_buses
    assert "ide" not in machines["q35"].disk_buses
    assert machines["q35"].secure_boot


def test_what_does_not_change_is_asked_once(connection: Any, tmp_path: Path) -> None:
    host = HostReport(_setup(tmp_path), _EMULATED)
    first = host.report(connection)
    assert host.report(connection) == first
    assert host.capabilities(connection) is host.capabilities(connection)


def test_sets_of_cpus(connection: Any, tmp_path: Path) -> None:
    setup = _setup(tmp_path, cpu_shared_set=frozenset({0}), cpu_dedicated_set=frozenset({1}))
    report = HostReport(setup, _EMULATED).report(connection)
    assert (_amounts(report)["VCPU"], _amounts(report)["PCPU"]) == (1, 1)
    first = report.devices.cells[0]
    assert (first.cpuset, first.pcpuset) == ({0}, {1})


def test_pci_devices_and_measurements(connection: Any, tmp_path: Path) -> None:
    setup = _setup(tmp_path, device_spec=('{"address": "*:*:*.*"}',), compute_monitors=("cpu.virt_driver",))
    host = HostReport(setup, _EMULATED)
    report = host.report(connection)
    devices = sorted(path.name for path in Path("/sys/bus/pci/devices").iterdir())
    found = sorted(address for pool in report.devices.pools for address in pool.addresses)
    bridges = [name for name in devices if Path(f"/sys/bus/pci/devices/{name}/class").read_text().startswith("0x06")]
    assert found == [name for name in devices if name not in bridges]
    assert host.report(connection).devices == report.devices
    assert 0.0 <= report.metrics["cpu.percent"] <= 1.0


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cpu_mode": "custom", "cpu_models": ("EPYC-Nowhere",)}, "EPYC-Nowhere"),
        ({"cpu_mode": "host-passthrough"}, "host-passthrough"),
        ({"hw_machine_type": ("x86_64=pc-q35-99",)}, "pc-q35-99"),
    ],
)
def test_what_no_guest_can_have_here_stops_the_start(
    connection: Any, tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    host = HostReport(_setup(tmp_path), replace(_EMULATED, **settings))
    with pytest.raises(ConfigurationError, match=said):
        host.report(connection)


def test_a_libvirtd_that_has_gone_is_an_error_of_the_driver(libvirt_node: LibvirtNode, tmp_path: Path) -> None:
    connection = libvirt.open(libvirt_node.uri)
    host = HostReport(_setup(tmp_path), _EMULATED)
    host.report(connection)
    libvirt_node.kill()
    try:
        with pytest.raises(DriverError, match="hypervisor"):
            host.report(connection)
    finally:
        libvirt_node.start()
    again = libvirt.open(libvirt_node.uri)
    assert host.report(again).inventories
    again.close()


def test_the_tiny_guest_that_kvm_is_tried_with_runs_where_cpus_are_emulated(connection: Any, tmp_path: Path) -> None:
    capabilities = HostReport(_setup(tmp_path), _EMULATED).capabilities(connection)
    assert try_guest(capabilities.emulator, capabilities.architecture, "tcg", 20) is None
    assert {"virtio-net-pci", "i6300esb"} <= device_types(capabilities.emulator)


def test_kvm_is_what_guests_run_by_where_it_works_and_only_there(connection: Any, tmp_path: Path) -> None:
    host = HostReport(_setup(tmp_path), replace(_EMULATED, virt_type=""))
    found = host.capabilities(connection)
    works = (
        os.access("/dev/kvm", os.R_OK | os.W_OK) and try_guest(found.emulator, found.architecture, "kvm", 20) is None
    )
    assert found.virt_type == ("kvm" if works else "qemu")
