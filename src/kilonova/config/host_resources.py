# SPDX-License-Identifier: Apache-2.0
"""Options for a real host's resources (CPUs, memory, disk, PCI devices) and for the metrics that it reports."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.model.cpu_set import parse_cpus


def _cpus(text: str) -> frozenset[int]:
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise ValueError(f"The CPU list is invalid: {error}.") from None


@dataclass(frozen=True, slots=True)
class HostResourceSettings:
    """Options of a real host's resources. Names and defaults are those of nova.conf. The names contain the units."""

    GROUP: ClassVar[str] = "compute"

    cpu_shared_set: Annotated[
        frozenset[int] | None,
        Option(
            "Host CPUs for unpinned vCPUs, such as 0-3,^2. Unset: all CPUs, or no CPUs if cpu_dedicated_set is set.",
            read=_cpus,
        ),
    ] = None
    cpu_dedicated_set: Annotated[
        frozenset[int] | None, Option("Host CPUs for pinned vCPUs, such as 4-15. Unset: no CPUs.", read=_cpus)
    ] = None
    image_type_exclude_list: Annotated[
        tuple[str, ...], Option("Disk formats of images that the host does not report as supported, such as vmdk.")
    ] = ()
    reserved_host_cpus: Annotated[
        int,
        Option(
            "CPUs reserved for the host itself; used if neither cpu_shared_set nor cpu_dedicated_set is set.",
            group="DEFAULT",
            min=0,
        ),
    ] = 0
    reserved_host_disk_mib: Annotated[
        int,
        Option("MiB of disk reserved for the host itself.", name="reserved_host_disk_mb", group="DEFAULT", min=0),
    ] = 0
    reserved_huge_pages: Annotated[
        tuple[str, ...],
        Option(
            "Huge pages of a NUMA cell that guests must not use, such as node:0,size:2048,count:64; size "
            "is in KiB, or has a unit, as in 1GB.",
            group="DEFAULT",
            repeats=True,
        ),
    ] = ()
    my_ip: Annotated[
        str | None,
        Option("IP address of the host; unset: the source address of its outgoing connections.", group="DEFAULT"),
    ] = None
    compute_monitors: Annotated[
        tuple[str, ...],
        Option(
            "Metrics that the host reports: cpu.virt_driver, the load of its CPUs.",
            group="DEFAULT",
        ),
    ] = ()
    device_spec: Annotated[
        tuple[str, ...],
        Option(
            "PCI devices offered to guests, each a JSON object or a list of objects: vendor_id, product_id, address "
            "and tags. devname is not supported.",
            group="pci",
            repeats=True,
            former=(("pci", "passthrough_whitelist"), ("DEFAULT", "pci_passthrough_whitelist")),
        ),
    ] = ()
