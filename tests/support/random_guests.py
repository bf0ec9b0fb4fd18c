# SPDX-License-Identifier: Apache-2.0
"""Hypothesis strategies for guests with any supported flavor and image features, or with arbitrary text as values."""

from dataclasses import replace

from hypothesis import strategies as st

from kilonova.compute.virt.libvirt.domain.description import DiskFile
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.model.guest_devices import GuestCell, GuestDevice, GuestDevices
from kilonova.model.instance import GuestSpec
from kilonova.model.network_info import Vif, VifNetwork
from support.guest_descriptions import CONFIG, EPHEMERAL, RESCUE, ROOT, SWAP, guest_of

_SWITCH = ("true", "false")
_BUSES = ("virtio", "scsi", "ide", "sata", "usb", "fdc")
#: Image property → values; each host supports some of them.
PROPERTIES: dict[str, tuple[str, ...]] = {
    "hw_machine_type": ("pc", "q35", "pc-i440fx-7.2", "pc-q35-7.2"),
    "hw_disk_bus": _BUSES,
    "hw_cdrom_bus": ("ide", "sata", "scsi", "usb"),
    "hw_scsi_model": ("virtio-scsi", "lsilogic", "lsisas1068", "lsisas1078"),
    "vmware_adaptertype": ("ide", "lsiLogic", "lsiLogicsas"),
    "hw_video_model": ("virtio", "vga", "cirrus", "qxl", "vmvga", "none", "bochs"),
    "hw_video_ram": ("16", "64"),
    "hw_vif_model": ("virtio", "e1000", "VirtualVmxnet3"),
    "hw_vif_multiqueue_enabled": _SWITCH,
    "hw_virtio_packed_ring": _SWITCH,
    "hw_firmware_type": ("bios", "uefi"),
    "hw_firmware_stateless": _SWITCH,
    "os_secure_boot": ("required", "optional", "disabled"),
    "os_type": ("linux", "windows"),
    "hw_boot_menu": _SWITCH,
    "hw_input_bus": ("usb", "virtio"),
    "hw_pointer_model": ("usbtablet",),
    "hw_rng_model": ("virtio",),
    "hw_watchdog_action": ("none", "pause", "poweroff", "reset", "disabled"),
    "hw_sound_model": ("sb16", "es1370", "ac97", "ich6", "ich9", "usb"),
    "hw_usb_model": ("nec-xhci", "qemu-xhci"),
    "hw_viommu_model": ("intel", "virtio", "auto"),
    "hw_tpm_version": ("1.2", "2.0"),
    "hw_tpm_model": ("tpm-tis", "tpm-crb"),
    "hw_time_hpet": _SWITCH,
    "hw_serial_port_count": ("1", "4"),
    "hw_qemu_guest_agent": _SWITCH,
    "hw_pmu": _SWITCH,
    "img_hide_hypervisor_id": _SWITCH,
    "hw_cpu_cores": ("1", "2"),
    "hw_cpu_max_sockets": ("1", "2"),
    "hw_cpu_max_threads": ("1", "2"),
    "hw_maxphysaddr_mode": ("passthrough", "emulate"),
    "hw_maxphysaddr_bits": ("40", "48"),
}
#: Extra spec → values; each host supports some of them.
SPECS: dict[str, tuple[str, ...]] = {
    "hw:boot_menu": _SWITCH,
    "hw:cpu_sockets": ("1", "2"),
    "hw:cpu_threads": ("1", "2"),
    "hw:cpu_max_sockets": ("2", "4"),
    "hw:cpu_realtime": _SWITCH,
    "hw:cpu_realtime_mask": ("^0", "0"),
    "hw:emulator_threads_policy": ("isolate", "share"),
    "hw:hide_hypervisor_id": _SWITCH,
    "hw:locked_memory": _SWITCH,
    "hw:mem_page_size": ("small", "large"),
    "hw:pmu": _SWITCH,
    "hw:serial_port_count": ("2", "4"),
    "hw:sound_model": PROPERTIES["hw_sound_model"],
    "hw:tpm_version": PROPERTIES["hw_tpm_version"],
    "hw:viommu_model": PROPERTIES["hw_viommu_model"],
    "hw:watchdog_action": PROPERTIES["hw_watchdog_action"],
    "hw_rng:allowed": _SWITCH,
    "hw_rng:rate_bytes": ("1024", "0"),
    "hw_rng:rate_period": ("100", "0"),
    "hw_video:ram_max_mb": ("16", "64"),
    "os:secure_boot": PROPERTIES["os_secure_boot"],
    "quota:cpu_shares": ("2", "1024"),
    "quota:cpu_period": ("1000", "100000"),
    "quota:cpu_quota": ("-1", "1000"),
    "quota:disk_read_iops_sec": ("0", "100"),
    "quota:disk_write_bytes_sec": ("1048576",),
    "quota:disk_total_iops_sec": ("100",),
}
#: Property and extra spec names that are refused, or that other code reads.
OTHER_NAMES = (
    *("kernel_id", "ramdisk_id", "os_command_line", "hw_rescue_device", "hw_rescue_bus", "hw_architecture"),
    *("hw_vm_mode", "hw_mem_encryption", "architecture", "hw_emulation_architecture"),
)
_DEVICE = GuestDevice("0000:81:00.1", "8086", "154d", "type-VF")
_NOTHING_RESERVED = GuestDevices()


def _some(values: dict[str, tuple[str, ...]]) -> st.SearchStrategy[dict[str, str]]:
    chosen = st.lists(st.sampled_from(sorted(values)), unique=True, max_size=10)
    return chosen.flatmap(lambda names: st.fixed_dictionaries({name: st.sampled_from(values[name]) for name in names}))


_PAGES = st.sampled_from([None, 4, 2048])
_RESERVED = st.one_of(
    st.just(_NOTHING_RESERVED),
    st.builds(
        lambda size, pinned: GuestDevices(
            (
                GuestCell(0, frozenset({0, 1}), 32, ((0, 0), (1, 1)) if pinned else (), frozenset(), size),
                GuestCell(0, frozenset({2, 3}), 32, (), frozenset({0}) if pinned else frozenset(), size),
            ),
            (_DEVICE,) if pinned else (),
        ),
        _PAGES,
        st.booleans(),
    ),
)
_NETWORK = VifNetwork(id="abcdef01-2345-4678-9abc-def012345678", label="private", mtu=1442)
_PORTS = tuple(
    Vif(port_id=f"{number}aa7b1c2-1111-4222-8333-444455556666", mac=f"fa:16:3e:00:00:0{number}", network=_NETWORK)
    for number in range(3)
)
_VIFS = st.sampled_from(
    [
        (),
        (replace(_PORTS[0], vif_type="ovs", details={"datapath_type": "netdev"}), replace(_PORTS[1], vif_type="ovs")),
        (
            replace(_PORTS[0], vif_type="bridge"),
            replace(_PORTS[1], vif_type="hw_veb", vnic_type="direct", profile={"pci_slot": "0000:81:00.1"}),
            replace(_PORTS[2], vif_type="macvtap", details={"macvtap_source": "lo", "macvtap_mode": "vepa"}),
        ),
    ]
)
#: Guests whose features some host supports, in any combination.
guests: st.SearchStrategy[GuestSpec] = st.builds(
    lambda specs, properties, reserved, vifs: guest_of(specs, properties, reserved, vcpus=4, vifs=vifs),
    _some(SPECS),
    _some(PROPERTIES),
    _RESERVED,
    _VIFS,
)
_TEXT = st.text(max_size=20) | st.sampled_from(
    ["'/><x/>", '"', "]]>", "../../etc/passwd", "/etc/shadow", "a\nb", "\x00", "&lt;", "<!ENTITY x SYSTEM 'file:///x'>"]
)
#: Guests whose flavor and image have arbitrary text as values.
invalid: st.SearchStrategy[GuestSpec] = st.builds(
    lambda specs, properties, hostname: guest_of(specs, properties, hostname=hostname),
    st.dictionaries(st.sampled_from(sorted(SPECS)), _TEXT, max_size=3),
    st.dictionaries(st.sampled_from(sorted({*PROPERTIES, *OTHER_NAMES})), _TEXT, max_size=3),
    _TEXT,
)
#: Disks of guests, including rescued guests.
disks: st.SearchStrategy[tuple[DiskFile, ...]] = st.sampled_from(
    [
        (ROOT,),
        (ROOT, CONFIG),
        (ROOT, EPHEMERAL, SWAP, CONFIG),
        (replace(ROOT, is_cdrom=True, format="raw"), EPHEMERAL),
        (ROOT, CONFIG, RESCUE),
        (ROOT, EPHEMERAL, CONFIG, RESCUE),
    ]
)
#: Image properties for rescues.
rescues: st.SearchStrategy[dict[str, str]] = st.sampled_from(
    [{}, {"hw_rescue_device": "cdrom"}, {"hw_rescue_bus": "usb"}, {"hw_rescue_device": "disk", "hw_rescue_bus": "scsi"}]
)
settings: st.SearchStrategy[LibvirtSettings] = st.builds(
    LibvirtSettings,
    cpu_mode=st.sampled_from(["", "none", "host-model", "custom"]),
    cpu_models=st.sampled_from([(), ("Nehalem",)]),
    cpu_model_extra_flags=st.sampled_from([(), ("aes", "-vmx")]),
    hw_machine_type=st.sampled_from([(), ("x86_64=q35",)]),
    num_pcie_ports=st.sampled_from([0, 4]),
    swtpm_enabled=st.booleans(),
    sysinfo_serial=st.sampled_from(["unique", "none"]),
    mem_stats_period_s=st.sampled_from([0, 10]),
    disk_cachemodes=st.sampled_from([(), ("file=none",)]),
    hw_disk_discard=st.sampled_from(["", "unmap"]),
    pointer_model=st.sampled_from(["usbtablet", "ps2mouse"]),
)
consoles: st.SearchStrategy[ConsoleSettings] = st.builds(
    ConsoleSettings, vnc_enabled=st.booleans(), serial_enabled=st.booleans()
)
