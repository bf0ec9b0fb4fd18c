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
            "Format of the images of servers. Unset: that of the image which the server was made of.",
            choices=("", "raw", "qcow2", "vmdk", "vdi"),
        ),
    ] = ""
    snapshots_directory: Annotated[
        Path | None,
        Option("Folder for copies of disks on their way to the image service; unset: snapshots in that of the guests."),
    ] = None
    remove_unused_resized_minimum_age_s: Annotated[
        int,
        Option(
            "Seconds for which no guest may have used an empty file system, of which ephemeral disks are made, before "
            "it is removed.",
            name="remove_unused_resized_minimum_age_seconds",
            group="image_cache",
            min=0,
        ),
    ] = 3600

    @property
    def has_cow_disks(self) -> bool:
        """Whether disks of guests are qcow2."""
        return self.images_type == "qcow2" or (self.images_type == "default" and self.use_cow_images)
