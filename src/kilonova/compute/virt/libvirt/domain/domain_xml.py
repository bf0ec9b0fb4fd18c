# SPDX-License-Identifier: Apache-2.0
"""libvirt XML of domains. Only this module and ``device_xml`` write it.

Values become text of elements and attributes, never markup; a value that XML cannot represent is rejected.
"""

from xml.etree import ElementTree as ET

from kilonova.compute.virt.libvirt.domain.description import Clock, Cpu, CpuTuning, Domain, Features, Firmware
from kilonova.compute.virt.libvirt.domain.device_xml import add_devices
from kilonova.compute.virt.libvirt.domain.xml_elements import child, flag, on_off
from kilonova.errors import UnsupportedGuest
from kilonova.model.cpu_set import cpus_text

_HYPERV = ("relaxed", "vapic", "vpindex", "runtime", "synic", "reset", "frequencies", "tlbflush", "ipi")
_SPINLOCK_RETRIES = 8191
#: Vendor id that guests see instead of the hypervisor's vendor id. It must have exactly twelve letters.
_VENDOR = "KilonovaVirt"


def domain_xml(domain: Domain) -> str:
    """Return the XML of a domain. Raises: UnsupportedGuest for a text that XML cannot represent."""
    root = ET.Element("domain", type=domain.virt_type)
    child(root, "name", domain.name)
    child(root, "uuid", domain.uuid)
    if domain.title:
        child(root, "title", domain.title)
    if domain.mark:
        child(root, "metadata").append(_parsed(domain.mark))
    child(root, "memory", domain.memory_mib, unit="MiB")
    _add_memory_backing(root, domain)
    child(root, "vcpu", domain.vcpus, placement="static", cpuset=cpus_text(domain.tuning.floating) or None)
    _add_tuning(root, domain.tuning)
    _add_numa_memory(root, domain.cpu)
    if domain.system:
        system = child(child(root, "sysinfo", type="smbios"), "system")
        for name, value in domain.system.items():
            child(system, "entry", value, name=name)
    _add_firmware(root, domain)
    _add_features(root, domain.features, domain.firmware)
    _add_cpu(root, domain.cpu)
    _add_clock(root, domain.clock)
    child(root, "on_poweroff", "destroy")
    child(root, "on_reboot", "restart")
    child(root, "on_crash", "destroy")
    devices = child(root, "devices")
    child(devices, "emulator", domain.emulator)
    add_devices(devices, domain.devices)
    return ET.tostring(root, encoding="unicode")


def _parsed(mark: str) -> ET.Element:
    try:
        return ET.fromstring(mark)  # noqa: S314 - the XML is from this process
    except ET.ParseError:
        raise UnsupportedGuest("The names of the guest contain characters that XML cannot represent.") from None


def _add_memory_backing(root: ET.Element, domain: Domain) -> None:
    paged = [cell for cell in domain.cpu.cells if cell.page_size_kib is not None]
    if not (paged or domain.locked_memory or not domain.merged_memory):
        return
    backing = child(root, "memoryBacking")
    if paged:
        pages = child(backing, "hugepages")
        for cell in paged:
            child(pages, "page", size=cell.page_size_kib, unit="KiB", nodeset=cell.id)
    if not domain.merged_memory:
        child(backing, "nosharepages")
    if domain.locked_memory:
        child(backing, "locked")


def _add_tuning(root: ET.Element, tuning: CpuTuning) -> None:
    limits = {"shares": tuning.shares, "period": tuning.period, "quota": tuning.quota}
    if not (tuning.pins or tuning.emulator or tuning.realtime or any(value is not None for value in limits.values())):
        return
    element = child(root, "cputune")
    for name, value in limits.items():
        if value is not None:
            child(element, name, value)
    for vcpu, cpus in tuning.pins:
        child(element, "vcpupin", vcpu=vcpu, cpuset=cpus_text(cpus))
    if tuning.emulator:
        child(element, "emulatorpin", cpuset=cpus_text(tuning.emulator))
    if tuning.realtime:
        vcpus = cpus_text(tuning.realtime)
        child(element, "vcpusched", vcpus=vcpus, scheduler="fifo", priority=tuning.realtime_priority)


def _add_numa_memory(root: ET.Element, cpu: Cpu) -> None:
    placed = [(cell.id, cell.host_cell) for cell in cpu.cells if cell.host_cell is not None]
    if not placed:
        return
    element = child(root, "numatune")
    child(element, "memory", mode="strict", nodeset=cpus_text({host_cell for _, host_cell in placed}))
    for cell, host_cell in placed:
        child(element, "memnode", cellid=cell, mode="strict", nodeset=host_cell)


def _add_firmware(root: ET.Element, domain: Domain) -> None:
    """Add the firmware. libvirt chooses the path of the firmware's variable store."""
    firmware = domain.firmware
    chosen_by_libvirt = firmware.efi and firmware.loader is None
    element = child(root, "os", firmware="efi" if chosen_by_libvirt else None)
    child(element, "type", "hvm", arch=domain.architecture, machine=domain.machine)
    if firmware.loader is not None:
        stateless = flag(firmware.stateless)
        child(element, "loader", firmware.loader, readonly="yes", type="pflash", stateless=stateless)
    elif firmware.efi:
        options = child(element, "firmware")
        for name in ("enrolled-keys", "secure-boot"):  # Secure Boot checks signatures only if keys are enrolled
            child(options, "feature", enabled=flag(firmware.secure_boot, otherwise="no"), name=name)
        if firmware.secure_boot or firmware.stateless:
            child(element, "loader", secure=flag(firmware.secure_boot), stateless=flag(firmware.stateless))
    if firmware.boot_menu:
        child(element, "bootmenu", enable="yes")
    if domain.system:
        child(element, "smbios", mode="sysinfo")


def _add_features(root: ET.Element, features: Features, firmware: Firmware) -> None:
    element = child(root, "features")
    child(element, "acpi")
    if features.apic:
        child(element, "apic")
    if features.hyperv:
        hyperv = child(element, "hyperv")
        for name in _HYPERV:
            child(hyperv, name, state="on")
        child(hyperv, "spinlocks", state="on", retries=_SPINLOCK_RETRIES)
        if features.hidden:
            child(hyperv, "vendor_id", state="on", value=_VENDOR)
    if features.hidden:
        child(child(element, "kvm"), "hidden", state="on")
    if features.pmu is not None:
        child(element, "pmu", state=on_off(features.pmu))
    if features.vmcoreinfo:
        child(element, "vmcoreinfo", state="on")
    if firmware.secure_boot:
        child(element, "smm", state="on")
    if features.ioapic_by_emulator:
        child(element, "ioapic", driver="qemu")
    if features.tb_cache_mib is not None:
        child(child(element, "tcg"), "tb-cache", features.tb_cache_mib, unit="MiB")


def _add_cpu(root: ET.Element, cpu: Cpu) -> None:
    element = child(root, "cpu", mode=cpu.mode, match="exact" if cpu.mode == "custom" else None)
    if cpu.model is not None:
        child(element, "model", cpu.model, fallback="forbid")
    child(element, "topology", sockets=cpu.sockets, cores=cpu.cores, threads=cpu.threads)
    if cpu.address_mode is not None:
        child(element, "maxphysaddr", mode=cpu.address_mode, bits=cpu.address_bits)
    for name, policy in cpu.features:
        child(element, "feature", policy=policy, name=name)
    if cpu.cells:
        numa = child(element, "numa")
        for cell in cpu.cells:
            child(numa, "cell", id=cell.id, cpus=cpus_text(cell.vcpus) or None, memory=cell.memory_mib, unit="MiB")


def _add_clock(root: ET.Element, clock: Clock) -> None:
    element = child(root, "clock", offset=clock.offset)
    for timer in clock.timers:
        present = None if timer.present is None else flag(timer.present, otherwise="no")
        child(element, "timer", name=timer.name, tickpolicy=timer.tick_policy, present=present)
