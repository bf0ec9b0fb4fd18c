# SPDX-License-Identifier: Apache-2.0
"""[libvirt]: how a host of real guests makes them. Read by whatever process has such a host."""

from dataclasses import dataclass
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
            "default stands for qcow2.",
            choices=("default", "qcow2", "raw"),
        ),
    ] = "default"
