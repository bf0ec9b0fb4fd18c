# SPDX-License-Identifier: Apache-2.0
"""Parser of the XML that libvirt's ``getCapabilities`` and ``getDomainCapabilities`` return.

Elements that older versions of libvirt do not write are optional.
"""

from collections.abc import Collection, Mapping
from xml.etree import ElementTree as ET

from kilonova.compute.virt.libvirt.host.capabilities import (
    EFI_ONLY,
    CellCpu,
    CellFacts,
    CpuModel,
    GuestKind,
    HostCapabilities,
    HostCpu,
    MachineType,
)
from kilonova.compute.virt.libvirt.host.device_types import DEVICE_TYPES, models_of
from kilonova.model.cpu_set import parse_cpus
from kilonova.records import dataclass

_KIB = {"b": 1 / 1024, "bytes": 1 / 1024, "KB": 1000 / 1024, "KiB": 1, "MiB": 1024, "GiB": 1024**2, "TiB": 1024**3}


@dataclass(frozen=True, slots=True)
class HostFacts:
    """Content of ``getCapabilities``.

    ``machines``: name or alias of a machine type → its name, for guests of the host's own architecture.
    """

    architecture: str
    emulator: str
    cpu: HostCpu
    cells: tuple[CellFacts, ...]
    kinds: tuple[GuestKind, ...]
    machines: Mapping[str, str]


def read_host(text: str) -> HostFacts:
    """Parse ``getCapabilities``. Raises: ValueError if there is no emulator for the host's own architecture."""
    root = _parsed(text)
    cpu = root.find("host/cpu")
    architecture = (cpu is not None and cpu.findtext("arch")) or ""
    kinds = tuple(_kind(guest, arch) for guest in root.iterfind("guest") for arch in guest.iterfind("arch"))
    own = next((kind for kind in kinds if (kind.architecture, kind.vm_mode) == (architecture, "hvm")), None)
    if own is None:
        raise ValueError(
            f"libvirt reports no emulator for {architecture or 'unknown CPUs'}, the architecture of this host"
        )
    machines = {
        str(machine.text): machine.get("canonical", str(machine.text))
        for arch in root.iterfind("guest/arch")
        if arch.get("name") == architecture and arch.findtext("emulator") == own.emulator
        for machine in arch.iterfind("machine")
    }
    cells = tuple(_cell(cell) for cell in root.iterfind("host/topology/cells/cell"))
    return HostFacts(architecture, own.emulator, _host_cpu(cpu), cells, kinds, machines)


def read_capabilities(
    host: HostFacts,
    domains: Mapping[str, str],
    device_types: Collection[str],
    *,
    default: str,
    virt_type: str,
    libvirt_version: int,
    qemu_version: int,
) -> HostCapabilities:
    """Return the capabilities of a host, from all answers of libvirt and QEMU.

    ``domains``: name of each machine type → XML of its ``getDomainCapabilities``. ``default``: the same XML for QEMU's
    default machine type. ``device_types``: QEMU's names of the devices that it can emulate.
    """
    boards = {name: _machine(name, host.architecture, text) for name, text in domains.items()}
    machines = {alias: boards[name] for alias, name in host.machines.items() if name in boards}
    told = _parsed(default)
    nics = frozenset(model for text in domains.values() for model in _nic_models(_parsed(text)))
    modes = {mode.get("name", ""): mode for mode in told.iterfind("cpu/mode") if mode.get("supported") == "yes"}
    return HostCapabilities(
        architecture=host.architecture,
        virt_type=virt_type,
        emulator=host.emulator,
        libvirt_version=libvirt_version,
        qemu_version=qemu_version,
        machines=machines,
        nic_models=models_of("hw_vif_model", device_types) | nics,
        cpu_models=frozenset(
            str(model.text) for model in told.iterfind("cpu/mode[@name='custom']/model") if model.get("usable") != "no"
        ),
        default_machine=told.findtext("machine", ""),
        cpu_modes=frozenset(modes),
        host_model=_cpu_model(modes["host-model"]) if "host-model" in modes else None,
        device_types=frozenset(device_types),
        cpu=host.cpu,
        cells=host.cells,
        kinds=host.kinds,
    )


def _parsed(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - the XML is from libvirtd


def _kind(guest: ET.Element, arch: ET.Element) -> GuestKind:
    types = frozenset(domain.get("type", "") for domain in arch.iterfind("domain"))
    return GuestKind(arch.get("name", ""), guest.findtext("os_type", ""), arch.findtext("emulator", ""), types)


def _host_cpu(cpu: ET.Element | None) -> HostCpu:
    if cpu is None:
        return HostCpu()
    topology, address = cpu.find("topology"), cpu.find("maxphysaddr")
    counts = {} if topology is None else topology.attrib
    return HostCpu(
        model=cpu.findtext("model", ""),
        vendor=cpu.findtext("vendor", ""),
        features=frozenset(feature.get("name", "") for feature in cpu.iterfind("feature")),
        sockets=int(counts.get("sockets", 1)),
        dies=int(counts.get("dies", 1)) * int(counts.get("clusters", 1)),
        cores=int(counts.get("cores", 1)),
        threads=int(counts.get("threads", 1)),
        address_bits=0 if address is None else int(address.get("bits", 0)),
    )


def _cell(cell: ET.Element) -> CellFacts:
    memory = cell.find("memory")
    pages: dict[int, int] = {}
    for each in cell.iterfind("pages"):
        pages[_kib(each, each.get("size", "0"))] = int(each.text or 0)
    cpus = tuple(_cpu(cpu) for cpu in cell.iterfind("cpus/cpu"))
    return CellFacts(int(cell.get("id", 0)), 0 if memory is None else _kib(memory, memory.text or "0"), cpus, pages)


def _kib(element: ET.Element, number: str) -> int:
    return int(int(number) * _KIB[element.get("unit", "KiB")])


def _cpu(cpu: ET.Element) -> CellCpu:
    number, socket = int(cpu.get("id", 0)), cpu.get("socket_id")
    siblings = parse_cpus(cpu.get("siblings", "")) or frozenset({number})
    return CellCpu(number, None if socket is None else int(socket), siblings)


def _machine(name: str, architecture: str, text: str) -> MachineType:
    told = _parsed(text)
    efi = _values(told, "os", "firmware") >= {"efi"}
    vcpus = told.find("vcpu")
    return MachineType(
        name=name,
        disk_buses=_values(told, "devices/disk", "bus"),
        video_models=_values(told, "devices/video", "modelType"),
        firmware=frozenset({"efi"} if efi else ()) | ({"bios"} if architecture not in EFI_ONLY else frozenset()),
        max_vcpus=0 if vcpus is None else int(vcpus.get("max", 0)),
        loaders=tuple(str(value.text) for value in told.iterfind("os/loader[@supported='yes']/value")) if efi else (),
        secure_boot=efi and _values(told, "os/loader", "secure") >= {"yes"},
        rng_models=_values(told, "devices/rng", "model"),
        tpm_models=_values(told, "devices/tpm", "model"),
        tpm_backends=_values(told, "devices/tpm", "backendModel"),
        tpm_versions=_values(told, "devices/tpm", "backendVersion"),
        filesystems=_values(told, "devices/filesystem", "driverType"),
        graphics=_values(told, "devices/graphics", "type"),
        memory_sources=_values(told, "memoryBacking", "sourceType"),
    )


def _nic_models(told: ET.Element) -> frozenset[str]:
    models = _values(told, "devices/interface", "model") | _values(told, "devices/interface", "modelType")
    return frozenset(model.removesuffix("-net-pci") for model in models) & DEVICE_TYPES["hw_vif_model"].keys()


def _values(told: ET.Element, path: str, name: str) -> frozenset[str]:
    """Return the values of the enumeration ``name`` in an element; none if libvirt marks the element as unsupported."""
    element = told.find(path)
    if element is None or element.get("supported") == "no":
        return frozenset()
    return frozenset(str(value.text) for value in element.iterfind(f"enum[@name='{name}']/value"))


def _cpu_model(mode: ET.Element) -> CpuModel:
    features = {
        policy: frozenset(each.get("name", "") for each in mode.iterfind(f"feature[@policy='{policy}']"))
        for policy in ("require", "disable")
    }
    return CpuModel(mode.findtext("model", ""), mode.findtext("vendor", ""), features["require"], features["disable"])
