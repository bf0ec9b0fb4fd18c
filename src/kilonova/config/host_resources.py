# SPDX-License-Identifier: Apache-2.0
"""What a host of real guests offers of what it has: CPUs, memory, disk, PCI devices, and what it measures of itself."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.model.cpu_set import parse_cpus


def _cpus(text: str) -> frozenset[int]:
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise ValueError(f"cannot be read: {error}.") from None


@dataclass(frozen=True, slots=True)
class HostResourceSettings:
    """Names and defaults are those of nova.conf. Units: as in the names."""

    GROUP: ClassVar[str] = "compute"

    cpu_shared_set: Annotated[
        frozenset[int] | None,
        Option(
            "CPUs of the host over which vCPUs float, as 0-3,^2. Unset: all, or with cpu_dedicated_set none.",
            read=_cpus,
        ),
    ] = None
    cpu_dedicated_set: Annotated[
        frozenset[int] | None, Option("CPUs of the host that vCPUs are pinned to, as 4-15. Unset: none.", read=_cpus)
    ] = None
    image_type_exclude_list: Annotated[
        tuple[str, ...], Option("Disk formats of images that the host does not say it can use, such as vmdk.")
    ] = ()
    reserved_host_cpus: Annotated[
        int,
        Option("CPUs that are kept for the host itself, where neither set is given.", group="DEFAULT", min=0),
    ] = 0
    reserved_host_disk_mib: Annotated[
        int,
        Option("MiB of disk kept for the host itself.", name="reserved_host_disk_mb", group="DEFAULT", min=0),
    ] = 0
    reserved_huge_pages: Annotated[
        tuple[str, ...],
        Option(
            "Pages of memory in a NUMA cell that are kept for others than guests, as node:0,size:2048,count:64; size "
            "is in KiB, or as 1GB.",
            group="DEFAULT",
            repeats=True,
        ),
    ] = ()
    my_ip: Annotated[
        str | None, Option("Address of the host; unset: the one from which it reaches others.", group="DEFAULT")
    ] = None
    compute_monitors: Annotated[
        tuple[str, ...],
        Option(
            "What the host measures of itself: cpu.virt_driver, the load of its CPUs.",
            group="DEFAULT",
        ),
    ] = ()
    device_spec: Annotated[
        tuple[str, ...],
        Option(
            "PCI devices that guests may have, each a JSON object or a list of them: vendor_id, product_id, address "
            "and tags. devname is not offered.",
            group="pci",
            repeats=True,
            former=(("pci", "passthrough_whitelist"), ("DEFAULT", "pci_passthrough_whitelist")),
        ),
    ] = ()
