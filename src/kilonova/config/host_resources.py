# SPDX-License-Identifier: Apache-2.0
"""Options for a real host's resources (CPUs, memory, disk, PCI devices) and for the metrics that it reports."""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Annotated, Any, ClassVar

from oslo_config import cfg

from kilonova.config.option import Option
from kilonova.config.section import read_section
from kilonova.errors import ConfigurationError
from kilonova.model.cpu_set import parse_cpus
from kilonova.records import dataclass


def _cpus(text: str) -> frozenset[int]:
    try:
        return parse_cpus(text)
    except ValueError as error:
        raise ValueError(f"The CPU list is invalid: {error}.") from None


@dataclass(frozen=True, slots=True)
class HostResourceSettings:
    """Options of a real host's resources. Names and defaults are those of nova.conf. The names contain the units.

    ``physnet_nodes``: physical network → NUMA cells near its card.
    """

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
    physnets: Annotated[
        tuple[str, ...],
        Option(
            "Physical networks whose cards are near certain NUMA cells; each has a section [neutron_physnet_NAME] with "
            "the option numa_nodes.",
            group="neutron",
        ),
    ] = ()
    tunnel_nodes: Annotated[
        frozenset[int] | None,
        Option(
            "NUMA cells near the card of overlay networks, such as 0-1. Unset: any.",
            name="numa_nodes",
            group="neutron_tunnel",
            read=_cpus,
        ),
    ] = None
    physnet_nodes: Mapping[str, frozenset[int]] = field(default_factory=dict)


def read_host_resources(conf: Any) -> HostResourceSettings:
    """Read the options, and ``numa_nodes`` of each physical network. Raises: ConfigurationError, ValueError."""
    resources = read_section(HostResourceSettings, conf)
    nodes = {}
    for name in resources.physnets:
        group = f"neutron_physnet_{name}"
        conf.register_opt(cfg.StrOpt("numa_nodes", default=""), group=group)
        try:
            nodes[name] = _cpus(conf[group].numa_nodes)
        except ValueError as error:
            raise ConfigurationError(f"[{group}] numa_nodes: {error}") from None
    return replace(resources, physnet_nodes=nodes)
