# SPDX-License-Identifier: Apache-2.0
"""[libvirt]: how a host of real guests makes them. Read by whatever process has such a host."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class LibvirtSettings:
    """Names and defaults are those of nova.conf."""

    GROUP: ClassVar[str] = "libvirt"

    connection_uri: Annotated[str, Option("Where libvirt is reached.")] = "qemu:///system"
    virt_type: Annotated[
        str,
        Option(
            "How guests run: kvm, or qemu, which emulates the CPU and is slow. Unset: kvm where it really works, which "
            "is tried once at the start.",
            choices=("", "kvm", "qemu"),
        ),
    ] = ""
    cpu_mode: Annotated[
        str,
        Option(
            "What guests see as their CPU: host-model, the nearest model that can be named; host-passthrough, the "
            "host's own; custom, that of cpu_models; none, what the emulator takes. Unset: host-model, on ARM "
            "host-passthrough; where libvirt has neither, as much as the emulator can do.",
            choices=("", "host-model", "host-passthrough", "custom", "none"),
        ),
    ] = ""
    cpu_models: Annotated[
        tuple[str, ...], Option("Models of CPUs for cpu_mode=custom; the first one is what guests get.")
    ] = ()
    cpu_model_extra_flags: Annotated[
        tuple[str, ...], Option("Features of CPUs that guests get beside those of the model, or, with a -, do not get.")
    ] = ()
    hw_machine_type: Annotated[
        tuple[str, ...],
        Option("Kind of machine for guests whose image names none, as x86_64=q35. Without: pc on x86, virt on ARM."),
    ] = ()
    sysinfo_serial: Annotated[
        str,
        Option(
            "Serial number of the machine as guests see it: unique, the uuid of the server, or none. Others that Nova "
            "has are not offered.",
            choices=("unique", "none"),
        ),
    ] = "unique"
    tb_cache_size_mib: Annotated[
        int,
        Option(
            "MiB in which the emulator keeps code that it has translated, for each guest of virt_type qemu. 0: the "
            "emulator decides, which means 1,024; so it is in Nova where this is not set.",
            name="tb_cache_size",
            min=0,
        ),
    ] = 32
    mem_stats_period_s: Annotated[
        int,
        Option(
            "Seconds between two counts of the memory that a guest uses. 0 or less: guests get no memory balloon.",
            name="mem_stats_period_seconds",
        ),
    ] = 10
    rng_dev_path: Annotated[Path, Option("Where the random numbers of guests come from.")] = Path("/dev/urandom")
    swtpm_enabled: Annotated[
        bool,
        Option("Whether guests may have TPMs. What such a TPM keeps is not encrypted on the host."),
    ] = False
    num_pcie_ports: Annotated[
        int,
        Option("Free slots for devices that guests on q35 machines get later. 0: as libvirt decides.", min=0, max=28),
    ] = 0
    realtime_scheduler_priority: Annotated[int, Option("Priority of vCPUs that run in real time.", min=1, max=99)] = 1
    disk_cachemodes: Annotated[
        tuple[str, ...],
        Option(
            "How the host caches the disks of guests, as file=none. Without: writeback. Only file is known here.",
        ),
    ] = ()
    hw_disk_discard: Annotated[
        str,
        Option(
            "Whether space that guests trim is given back to the host: unmap or ignore. Unset: the emulator decides.",
            choices=("", "ignore", "unmap"),
        ),
    ] = ""
    pointer_model: Annotated[
        str,
        Option(
            "The pointer of guests with a screen: usbtablet, which knows where it is, or ps2mouse. The image "
            "properties hw_input_bus and hw_pointer_model override it.",
            group="DEFAULT",
            choices=("", "ps2mouse", "usbtablet"),
        ),
    ] = "usbtablet"
    images_type: Annotated[
        str,
        Option(
            "Format of the disks of guests: qcow2, with the image as backing file of all that are made of it; or raw. "
            "default stands for what [DEFAULT] use_cow_images says.",
            choices=("default", "qcow2", "raw"),
        ),
    ] = "default"
    force_raw_images: Annotated[
        bool,
        Option(
            "Whether images are converted to raw once, when they come to a host; otherwise qcow2 images are kept as "
            "they are. Images of other formats are always converted.",
            group="DEFAULT",
        ),
    ] = True
    use_cow_images: Annotated[
        bool,
        Option("Whether [libvirt] images_type default stands for qcow2, or else for raw.", group="DEFAULT"),
    ] = True
    preallocate_images: Annotated[
        str,
        Option(
            "Whether room is set aside for the disks of a guest when it is made: space, or none.",
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
        Option("Kinds of VMDK that images may have. Those with data in other files are not safe.", group="compute"),
    ] = ("streamOptimized", "monolithicSparse")
    snapshot_image_format: Annotated[
        str,
        Option(
            "Format of the images of servers, of which control processes tell the image service and hosts. Unset: that "
            "of the image which the server was made of.",
            choices=("", "raw", "qcow2", "vmdk", "vdi"),
        ),
    ] = ""
    snapshots_directory: Annotated[
        Path | None,
        Option("Folder for copies of disks on their way to the image service; unset: snapshots in that of the guests."),
    ] = None

    @property
    def has_cow_disks(self) -> bool:
        """Whether disks of guests are qcow2."""
        return self.images_type == "qcow2" or (self.images_type == "default" and self.use_cow_images)
