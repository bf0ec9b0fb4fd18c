# SPDX-License-Identifier: Apache-2.0
"""CPUs and memory of a guest: topology, NUMA cells, pinning and page sizes."""

from kilonova.compute.virt.libvirt.domain.description import Cpu, CpuTuning, NumaCell
from kilonova.compute.virt.libvirt.domain.guest_options import GuestOptions, one_of
from kilonova.compute.virt.libvirt.host.capabilities import HostCapabilities
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.cpu_set import parse_cpus
from kilonova.model.instance import GuestSpec
from kilonova.records import dataclass

_PARTS = ("sockets", "cores", "threads")
_UNLIMITED = 65536
_SMALL_PAGE_KIB = 4
#: Default CPU modes, best first. The first mode that libvirt supports on the host is used.
_MODES = ("host-model", "host-passthrough", "maximum")
_ARM_MODES = ("host-passthrough", "maximum", "host-model")
_ADDRESS_MODES = ("passthrough", "emulate")


@dataclass(frozen=True, slots=True)
class Topology:
    sockets: int
    cores: int
    threads: int


def choose_topology(vcpus: int, options: GuestOptions) -> Topology:
    """Return the best CPU topology by these criteria, in order: most fulfilled preferences, few threads, many sockets.

    A limit of the image must not exceed the same limit of the flavor. If the image has a preference, all preferences of
    the flavor are ignored. Raises: UnsupportedGuest. Source: Nova admin guide, "CPU topologies".
    """
    limits = {part: _limit(part, options) for part in _PARTS}
    preferred = _preferred(limits, options)
    possible = [
        Topology(sockets, cores, vcpus // (sockets * cores))
        for sockets in _divisors(vcpus)
        for cores in _divisors(vcpus // sockets)
    ]
    allowed = [each for each in possible if all(getattr(each, part) <= limits[part] for part in _PARTS)]
    if not allowed:
        raise UnsupportedGuest(
            f"hw_cpu_max_sockets, hw_cpu_max_cores and hw_cpu_max_threads do not allow {vcpus} vCPUs."
        )

    def merit(each: Topology) -> tuple[int, int, int, int]:
        met = sum(getattr(each, part) == preferred[part] for part in _PARTS if preferred[part])
        return met, each.sockets * each.cores, each.sockets, each.threads

    return max(allowed, key=merit)


def describe_cpu(guest: GuestSpec, options: GuestOptions, host: HostCapabilities, settings: LibvirtSettings) -> Cpu:
    """Return the CPUs of a guest. Raises: UnsupportedGuest naming the property."""
    topology = choose_topology(guest.vcpus, options)
    mode = settings.cpu_mode or _default_mode(host)
    mode = None if mode == "none" else mode
    if mode is not None and host.cpu_modes and mode not in host.cpu_modes:
        raise UnsupportedGuest(f"[libvirt] cpu_mode={mode} is not supported by this host with {host.virt_type}.")
    if mode == "custom" and not settings.cpu_models:
        raise UnsupportedGuest("[libvirt] cpu_mode=custom needs [libvirt] cpu_models on this host.")
    model = settings.cpu_models[0] if mode == "custom" else None
    if model is not None and host.cpu_models and model not in host.cpu_models:
        raise UnsupportedGuest(f"[libvirt] cpu_models={model} is not supported by this host.")
    flags = dict(_flag(text) for text in settings.cpu_model_extra_flags) if mode is not None else {}
    address_mode, address_bits = _addresses(options)
    return Cpu(
        sockets=topology.sockets,
        cores=topology.cores,
        threads=topology.threads,
        mode=mode,
        model=model,
        features=tuple(flags.items()),
        cells=_cells(guest, host),
        address_mode=address_mode,
        address_bits=address_bits,
    )


def describe_tuning(
    guest: GuestSpec,
    options: GuestOptions,
    host: HostCapabilities,
    settings: LibvirtSettings,
    shared_cpus: frozenset[int] = frozenset(),
) -> CpuTuning:
    """Return the CPU pinning and CPU limits of a guest. Raises: UnsupportedGuest naming the extra spec."""
    pins: dict[int, frozenset[int]] = {}
    emulator: set[int] = set()
    realtime = realtime_vcpus(guest, options)
    for cell in guest.reserved.cells:
        near = _cpus_of(host, cell.host_cell)
        shared = near & shared_cpus if shared_cpus else near
        pins.update((vcpu, shared) for vcpu in cell.vcpus if shared)
        pins.update((vcpu, frozenset({cpu})) for vcpu, cpu in cell.pinning)
        emulator |= cell.emulator
    if not emulator and options.spec("hw:emulator_threads_policy") == "share":
        if realtime and not shared_cpus:
            raise UnsupportedGuest("hw:emulator_threads_policy=share needs [compute] cpu_shared_set on this host.")
        emulator = set(shared_cpus)
    if not emulator:
        emulator = {cpu for vcpu, cpus in pins.items() if vcpu not in realtime for cpu in cpus}
    return CpuTuning(
        floating=frozenset() if guest.reserved.cells else shared_cpus,
        pins=tuple(sorted(pins.items())),
        emulator=frozenset(emulator),
        realtime=realtime,
        realtime_priority=settings.realtime_scheduler_priority,
        shares=options.spec_number("quota:cpu_shares", 2, 262144),
        period=options.spec_number("quota:cpu_period", 1000, 1000000),
        quota=_quota(options),
    )


def realtime_vcpus(guest: GuestSpec, options: GuestOptions) -> frozenset[int]:
    """Return the vCPUs of a guest that have real-time scheduling. Raises: UnsupportedGuest."""
    if not options.spec_flag("hw:cpu_realtime"):
        return frozenset()
    everything = frozenset(range(guest.vcpus))
    mask = options.image_first("cpu_realtime_mask")
    if mask is None:
        return everything
    if mask.strip().startswith("^"):
        mask = f"0-{guest.vcpus - 1},{mask}"
    try:
        chosen = parse_cpus(mask)
    except ValueError as error:
        raise UnsupportedGuest(f"hw:cpu_realtime_mask: {error}.") from None
    if not chosen or not chosen <= everything:
        raise UnsupportedGuest("hw:cpu_realtime_mask must name vCPUs of the flavor.")
    return chosen


def memory_is_locked(guest: GuestSpec, options: GuestOptions) -> bool:
    """Tell whether the memory of a guest is never swapped out. Raises: UnsupportedGuest."""
    locked = options.agreed_flag("locked_memory")
    if locked and not (options.spec("hw:mem_page_size") or options.property("hw_mem_page_size")):
        raise UnsupportedGuest("hw:locked_memory needs hw:mem_page_size.")
    return bool(locked) or bool(realtime_vcpus(guest, options))


def _default_mode(host: HostCapabilities) -> str | None:
    """Return the default CPU mode of guests on a host, or None for QEMU's default."""
    modes = _ARM_MODES if host.architecture == "aarch64" else _MODES
    return next((mode for mode in modes if mode in host.cpu_modes or not host.cpu_modes), None)


def _addresses(options: GuestOptions) -> tuple[str | None, int | None]:
    """Return mode and width (bits) of physical addresses; None stands for the default. Raises: UnsupportedGuest."""
    asked = options.spec("hw:maxphysaddr_mode") or options.property("hw_maxphysaddr_mode")
    mode = one_of("hw:maxphysaddr_mode", asked, _ADDRESS_MODES)
    bits = options.spec_number("hw:maxphysaddr_bits", 1, 64) or options.property_number("hw_maxphysaddr_bits", 1, 64)
    if mode == "emulate" and bits is None:
        raise UnsupportedGuest("hw:maxphysaddr_mode=emulate needs hw:maxphysaddr_bits.")
    if mode == "passthrough" and bits is not None:
        raise UnsupportedGuest("hw:maxphysaddr_mode=passthrough excludes hw:maxphysaddr_bits.")
    return mode, bits if mode is not None else None


def _cells(guest: GuestSpec, host: HostCapabilities) -> tuple[NumaCell, ...]:
    small = min((size for facts in host.cells for size in facts.pages), default=_SMALL_PAGE_KIB)
    return tuple(
        NumaCell(
            index,
            cell.vcpus,
            cell.memory_mib,
            cell.host_cell,
            cell.page_size_kib if cell.page_size_kib is not None and cell.page_size_kib > small else None,
        )
        for index, cell in enumerate(guest.reserved.cells)
    )


def _cpus_of(host: HostCapabilities, cell: int) -> frozenset[int]:
    """Return the ids of the CPUs in a NUMA cell of the host; empty if unknown."""
    return frozenset(cpu.id for facts in host.cells if facts.id == cell for cpu in facts.cpus)


def _limit(part: str, options: GuestOptions) -> int:
    of_flavor = options.spec_number(f"hw:cpu_max_{part}") or 0
    of_image = options.property_number(f"hw_cpu_max_{part}") or 0
    if of_flavor and of_image > of_flavor:
        raise UnsupportedGuest(f"hw_cpu_max_{part}={of_image} exceeds the flavor's hw:cpu_max_{part}={of_flavor}.")
    return of_image or of_flavor or _UNLIMITED


def _preferred(limits: dict[str, int], options: GuestOptions) -> dict[str, int]:
    of_image = {part: options.property_number(f"hw_cpu_{part}") or 0 for part in _PARTS}
    of_flavor = {part: options.spec_number(f"hw:cpu_{part}") or 0 for part in _PARTS}
    for part, wanted in of_image.items():
        if wanted > limits[part]:
            raise UnsupportedGuest(f"hw_cpu_{part}={wanted} exceeds hw_cpu_max_{part}={limits[part]}.")
    if any(of_image.values()):
        return of_image
    if any(wanted > limits[part] for part, wanted in of_flavor.items()):
        return dict.fromkeys(_PARTS, 0)
    return of_flavor


def _divisors(number: int) -> list[int]:
    return [part for part in range(1, number + 1) if number % part == 0]


def _flag(text: str) -> tuple[str, str]:
    """Return the name of a CPU feature, and its policy: require or disable."""
    name = text.strip().lower()
    return name.lstrip("+-"), "disable" if name.startswith("-") else "require"


def _quota(options: GuestOptions) -> int | None:
    """Return the CPU time per period in microseconds. None, 0 and negative results mean no limit.

    Raises: UnsupportedGuest.
    """
    most = 17592186044415
    quota = options.spec_number("quota:cpu_quota", -1, most)
    if quota is not None and 0 < quota < 1000:
        raise UnsupportedGuest(f"quota:cpu_quota={quota} is less than 1000.")
    return quota
