# SPDX-License-Identifier: Apache-2.0
"""The board of a guest: machine type, firmware, clock and SMBIOS texts."""

from dataclasses import replace

import kilonova
from kilonova.compute.virt.libvirt.domain.description import Clock, Features, Firmware, Timer, VirtType
from kilonova.compute.virt.libvirt.domain.device_description import Iommu
from kilonova.compute.virt.libvirt.domain.guest_options import GuestOptions, one_of, shown
from kilonova.compute.virt.libvirt.host.capabilities import EFI_ONLY, HostCapabilities, MachineType
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from kilonova.model.image_properties import canonical_architecture, canonical_vm_mode
from kilonova.model.instance import GuestSpec
from kilonova.records import dataclass

#: Architecture → default machine type. An architecture that is not listed has QEMU's default machine type. On x86 the
#: default is pc, not q35, because existing guests were installed on pc.
_DEFAULT_MACHINES = {"x86_64": "pc", "i686": "pc", "aarch64": "virt", "armv7l": "virt", "ppc64le": "pseries"}
_SECURE_BOOT = ("required", "optional", "disabled")
_FIRMWARE = {"bios": "bios", "uefi": "efi"}
_X86 = frozenset({"x86_64", "i686"})
#: Parts of file names of UEFI firmware that enforces keys or encrypts memory. Such firmware is never chosen by default.
_SPECIAL_LOADERS = ("secboot", "secure", ".ms.", "snakeoil", "amdsev", "inteltdx")
#: Architecture of a guest → architectures of hosts that can run it, if there are several.
_RUNS_ON = {"i686": frozenset({"i686", "x86_64"})}
#: SMBIOS texts by which cloud-init and similar programs recognize an OpenStack guest.
_MANUFACTURER, _PRODUCT = "OpenStack Foundation", "OpenStack Nova"


@dataclass(frozen=True, slots=True)
class Board:
    """The machine type of a guest. ``facts``: features of the machine type on this host; None if they are unknown."""

    name: str
    architecture: str
    facts: MachineType | None = None

    @property
    def is_q35(self) -> bool:
        return self.is_x86 and "q35" in (self.name if self.facts is None else self.facts.name)

    @property
    def is_x86(self) -> bool:
        return self.architecture in _X86


def choose_board(options: GuestOptions, host: HostCapabilities, settings: LibvirtSettings) -> Board:
    """Return the machine type for a guest. Raises: UnsupportedGuest naming the property or the operator's option."""
    _require_architecture(options, host)
    source, name = "hw_machine_type", options.property("hw_machine_type")
    if name is None:
        source, name = "[libvirt] hw_machine_type", _default_machine(host, settings)
    board = Board(name, host.architecture, host.machines.get(name))
    real = name if board.facts is None else board.facts.name
    known = board.facts is not None or not host.machines
    fits = not board.is_x86 or real == "q35" or real.split("-")[0] == "pc"
    if not known or not fits or not name.isascii() or not name.replace("-", "").replace(".", "").isalnum():
        raise UnsupportedGuest(f"{source}={shown(name)} is not a machine type that this host supports.")
    return board


def describe_firmware(options: GuestOptions, board: Board) -> Firmware:
    """Return the firmware that boots the guest. Raises: UnsupportedGuest naming the property."""
    asked = options.property("hw_firmware_type")
    kind = (asked or ("uefi" if board.architecture in EFI_ONLY else "bios")).lower()
    one_of("hw_firmware_type", kind, _FIRMWARE)
    kind = _FIRMWARE[kind]
    secure_boot = one_of("os_secure_boot", options.agreed("secure_boot", prefix="os"), _SECURE_BOOT)
    menu = options.property_flag("hw_boot_menu")
    firmware = Firmware(boot_menu=bool(options.spec_flag("hw:boot_menu") if menu is None else menu))
    if kind == "bios":
        if secure_boot == "required":
            raise UnsupportedGuest("os_secure_boot=required needs hw_firmware_type=uefi.")
        return firmware
    if board.facts is not None and kind not in board.facts.firmware:
        if asked is None:
            raise UnsupportedGuest(f"{board.name} machines need UEFI, but libvirt finds no UEFI firmware on this host.")
        raise UnsupportedGuest(f"hw_firmware_type=uefi is not supported by this host on {board.name} machines.")
    stateless = bool(options.property_flag("hw_firmware_stateless"))
    why_insecure = _why_insecure(board, stateless=stateless)
    if secure_boot == "required" and why_insecure is not None:
        raise UnsupportedGuest(f"os_secure_boot=required {why_insecure}.")
    secure = why_insecure is None and secure_boot in {"required", "optional"}
    loader = _plain_loader(board) if stateless else None
    return replace(firmware, efi=True, loader=loader, secure_boot=secure, stateless=stateless)


def describe_features(
    options: GuestOptions, board: Board, virt_type: str, settings: LibvirtSettings, iommu: Iommu | None = None
) -> Features:
    """Return the features that the hypervisor gives to a guest; devices are described elsewhere."""
    hidden = any(
        (
            options.spec_flag("hide_hypervisor_id"),
            options.spec_flag("hw:hide_hypervisor_id"),
            options.property_flag("img_hide_hypervisor_id"),
        )
    )
    emulated = virt_type == VirtType.QEMU
    return Features(
        apic=board.is_x86,
        hyperv=is_windows(options) and not emulated,
        hidden=hidden,
        pmu=options.agreed_flag("pmu"),
        ioapic_by_emulator=iommu is not None and iommu.options.get("intremap") == "on",
        tb_cache_mib=settings.tb_cache_size_mib or None if emulated else None,
    )


def describe_clock(options: GuestOptions, board: Board, virt_type: str) -> Clock:
    """Return the clock of a guest: in local time for Windows, which expects local time, otherwise in UTC."""
    offset = "localtime" if is_windows(options) else "utc"
    if virt_type != VirtType.KVM or not board.is_x86:
        return Clock(offset)
    timers = [
        Timer("pit", tick_policy="delay"),
        Timer("rtc", tick_policy="catchup"),
        Timer("hpet", present=bool(options.property_flag("hw_time_hpet"))),
    ]
    if is_windows(options):
        timers.append(Timer("hypervclock", present=True))
    return Clock(offset, tuple(timers))


def describe_system(guest: GuestSpec, settings: LibvirtSettings) -> dict[str, str]:
    """Return the SMBIOS texts of a guest, by which programs in the guest recognize an OpenStack cloud."""
    system = {
        "manufacturer": _MANUFACTURER,
        "product": _PRODUCT,
        "version": kilonova.__version__,
        "serial": guest.uuid,
        "uuid": guest.uuid,
        "family": "Virtual Machine",
    }
    if settings.sysinfo_serial == "none":
        del system["serial"]
    return system


def is_windows(options: GuestOptions) -> bool:
    return (options.property("os_type") or "").lower() == "windows"


def _why_insecure(board: Board, *, stateless: bool) -> str | None:
    """Return the reason why Secure Boot is impossible, or None if it is possible."""
    if board.is_x86 and not board.is_q35:
        return "needs hw_machine_type=q35"
    if board.facts is not None and not board.facts.secure_boot:
        return "is not supported by this host (supported: disabled, optional)"
    return "excludes hw_firmware_stateless: the keys are variables of the firmware" if stateless else None


def _plain_loader(board: Board) -> str | None:
    """Return the path of a UEFI firmware that needs no variable store, or None.

    The driver chooses the firmware itself: libvirt chooses only among the firmware in its descriptor files, which list
    few images without a variable store.
    """
    loaders = board.facts.loaders if board.facts is not None else ()
    plain = [path for path in loaders if "CODE" in path and not any(word in path.lower() for word in _SPECIAL_LOADERS)]
    return min(plain, default=None)


def _default_machine(host: HostCapabilities, settings: LibvirtSettings) -> str:
    for entry in settings.hw_machine_type:
        architecture, _, machine = entry.partition("=")
        if architecture.strip() == host.architecture and machine.strip():
            return machine.strip()
    return _DEFAULT_MACHINES.get(host.architecture, host.default_machine)


def _require_architecture(options: GuestOptions, host: HostCapabilities) -> None:
    """Raise UnsupportedGuest for an architecture or a vm_mode that this host does not run."""
    for name in ("hw_architecture", "hw_emulation_architecture"):
        asked = options.property(name)
        if asked is not None:
            architecture = canonical_architecture(asked)
            if host.architecture not in _RUNS_ON.get(architecture, {architecture}):
                raise UnsupportedGuest(f"{name}={shown(asked)} is not supported: this host is {host.architecture}.")
    mode = options.property("hw_vm_mode")
    if mode is not None and canonical_vm_mode(mode) != "hvm":
        raise UnsupportedGuest(f"hw_vm_mode={shown(mode)} is not supported by this host (supported: hvm).")
