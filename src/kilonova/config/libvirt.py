# SPDX-License-Identifier: Apache-2.0
"""[libvirt]: options of real guests. Every process that runs a libvirt host reads them."""

from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class LibvirtSettings:
    """Options of the libvirt driver. Names and defaults are those of nova.conf."""

    GROUP: ClassVar[str] = "libvirt"

    connection_uri: Annotated[str, Option("Connection URI of libvirt.")] = "qemu:///system"
    virt_type: Annotated[
        str,
        Option(
            "Domain type of guests: kvm, or qemu, which emulates the CPU and is slow. Unset: kvm if a test at start "
            "shows that it works.",
            choices=("", "kvm", "qemu"),
        ),
    ] = ""
    cpu_mode: Annotated[
        str,
        Option(
            "CPU model of guests: host-model, the named model nearest to the host's CPU; host-passthrough, the host's "
            "CPU itself; custom, the model in cpu_models; none, the emulator's default. Unset: host-model, on ARM "
            "host-passthrough; if libvirt supports neither, the emulator's maximum.",
            choices=("", "host-model", "host-passthrough", "custom", "none"),
        ),
    ] = ""
    cpu_models: Annotated[tuple[str, ...], Option("CPU models for cpu_mode=custom; guests get the first model.")] = ()
    cpu_model_extra_flags: Annotated[
        tuple[str, ...], Option("CPU flags added to the model, or removed from it if prefixed with -.")
    ] = ()
    hw_machine_type: Annotated[
        tuple[str, ...],
        Option("Machine type of guests whose image names none, such as x86_64=q35. Unset: pc on x86, virt on ARM."),
    ] = ()
    sysinfo_serial: Annotated[
        str,
        Option(
            "Serial number in the SMBIOS of guests: unique, the uuid of the server, or none. Nova's other choices "
            "are not supported.",
            choices=("unique", "none"),
        ),
    ] = "unique"
    tb_cache_size_mib: Annotated[
        int,
        Option(
            "Size in MiB of the emulator's cache of translated code, for each guest of virt_type qemu. 0: the "
            "emulator's default of 1,024, which is also Nova's default.",
            name="tb_cache_size",
            min=0,
        ),
    ] = 32
    mem_stats_period_s: Annotated[
        int,
        Option(
            "Interval of a guest's memory statistics, in seconds. 0 or less: guests get no memory balloon.",
            name="mem_stats_period_seconds",
        ),
    ] = 10
    rng_dev_path: Annotated[Path, Option("Entropy source of guests' random number generators.")] = Path("/dev/urandom")
    swtpm_enabled: Annotated[
        bool,
        Option("Whether guests may have emulated TPMs. The state of a TPM is not encrypted on the host."),
    ] = False
    num_pcie_ports: Annotated[
        int,
        Option("Free PCIe ports of q35 guests, for devices attached later. 0: libvirt's default.", min=0, max=28),
    ] = 0
    max_queues: Annotated[
        int | None,
        Option(
            "Maximum number of queue pairs of a network card with multiqueue. Unset: the number of vCPUs, at most 256.",
            min=1,
        ),
    ] = None
    device_detach_attempts: Annotated[
        int, Option("How often a running guest is asked to release a device that is detached.", min=1)
    ] = 8
    device_detach_timeout_s: Annotated[
        int,
        Option(
            "Time that a running guest has to release a detached device after each request, in seconds.",
            name="device_detach_timeout",
            min=1,
        ),
    ] = 20
    realtime_scheduler_priority: Annotated[int, Option("Priority of vCPUs that run in real time.", min=1, max=99)] = 1
    disk_cachemodes: Annotated[
        tuple[str, ...],
        Option(
            "Cache mode of guest disks, such as file=none. Unset: writeback. Only the disk type file is supported.",
        ),
    ] = ()
    hw_disk_discard: Annotated[
        str,
        Option(
            "Whether space that guests trim is freed on the host: unmap or ignore. Unset: the emulator's default.",
            choices=("", "ignore", "unmap"),
        ),
    ] = ""
    pointer_model: Annotated[
        str,
        Option(
            "Pointer device of guests with a screen: usbtablet, which has absolute coordinates, or ps2mouse. The image "
            "properties hw_input_bus and hw_pointer_model override it.",
            group="DEFAULT",
            choices=("", "ps2mouse", "usbtablet"),
        ),
    ] = "usbtablet"
    ovs_bridge: Annotated[
        str,
        Option("Bridge of Open vSwitch for a port for which the network service names none.", group="neutron"),
    ] = "br-int"
    images_type: Annotated[
        str,
        Option(
            "Format of guest disks: qcow2, with the cached image as shared backing file; or raw. default: qcow2 or "
            "raw according to [DEFAULT] use_cow_images.",
            choices=("default", "qcow2", "raw"),
        ),
    ] = "default"
    force_raw_images: Annotated[
        bool,
        Option(
            "Whether images are converted to raw when a host downloads them; otherwise qcow2 images are kept as "
            "qcow2. Images of other formats are always converted.",
            group="DEFAULT",
        ),
    ] = True
    use_cow_images: Annotated[
        bool,
        Option("Whether [libvirt] images_type default means qcow2 (true) or raw (false).", group="DEFAULT"),
    ] = True
    preallocate_images: Annotated[
        str,
        Option(
            "Whether guest disks are preallocated: space (yes) or none (no).",
            group="DEFAULT",
            choices=("none", "space"),
        ),
    ] = "none"
    default_ephemeral_format: Annotated[
        str,
        Option(
            "File system of ephemeral disks. Unset: ext4 for images with os_type linux, ntfs with windows, else vfat.",
            group="DEFAULT",
            choices=("", "ext2", "ext3", "ext4", "xfs", "ntfs", "vfat"),
        ),
    ] = ""
    vmdk_allowed_types: Annotated[
        tuple[str, ...],
        Option("Allowed VMDK subformats of images. Subformats with data in other files are unsafe.", group="compute"),
    ] = ("streamOptimized", "monolithicSparse")
    snapshot_image_format: Annotated[
        str,
        Option(
            "Format of snapshots and backups of servers. Control processes read this option. Unset: the format of the "
            "server's image.",
            choices=("", "raw", "qcow2", "vmdk", "vdi"),
        ),
    ] = ""
    snapshots_directory: Annotated[
        Path | None,
        Option("Folder for temporary copies of disks during snapshots; unset: 'snapshots' in the folder of guests."),
    ] = None

    @property
    def has_cow_disks(self) -> bool:
        """Whether disks of guests are qcow2."""
        return self.images_type == "qcow2" or (self.images_type == "default" and self.use_cow_images)
