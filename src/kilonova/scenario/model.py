# SPDX-License-Identifier: Apache-2.0
"""Values of a scenario: hosts, aggregates, flavors, images, server groups, and servers with their expected hosts.

The names of fields contain their units. ``docs/scenarios.md`` describes every field for authors of scenarios.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from kilonova.model.ability import Ability
from kilonova.model.allocation_ratios import AllocationRatios
from kilonova.model.cpu_set import parse_cpus
from kilonova.model.device_models import trait_of, unsupported
from kilonova.model.host import Capabilities
from kilonova.model.host_devices import HostDevices
from kilonova.model.numa import HostCell, Pages
from kilonova.model.pci import STANDARD, CardFacts, PciPool
from kilonova.model.provider import Inventory
from kilonova.records import dataclass

PROJECTS = ("admin", "demo")
"""Projects that servers and groups may belong to: that of an administrator, and that of an ordinary member."""

DEFAULT_CAPABILITIES = Capabilities(
    hypervisor_type="fake",
    hypervisor_version=1000000,
    supported_instances=(("x86_64", "fake", "hvm"), ("x86_64", "qemu", "hvm"), ("x86_64", "kvm", "hvm")),
    cpu_info={
        "arch": "x86_64",
        "vendor": "Simulated",
        "model": "generic",
        "features": ["aes", "sse4.2"],
        "topology": {"sockets": 2, "cores": 16, "threads": 1},
    },
)

_PROJECT_REFERENCE = re.compile(r"\$\{project:([^${}]*)\}")


#: Traits of every simulated hypervisor, except those that its scenario lists in ``lacks``. They stand for abilities
#: that need no simulation. Traits of devices, volumes and networks are missing here, because simulated guests have no
#: devices, and their interfaces are only records; a scenario may add such traits.
CAPABILITY_TRAITS = (
    "COMPUTE_ADDRESS_SPACE_EMULATED",
    "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
    "COMPUTE_IMAGE_TYPE_RAW",
    "COMPUTE_SECURITY_STATELESS_FIRMWARE",
)


@dataclass(frozen=True, slots=True)
class SimulatedCell:
    """One NUMA cell. ``cpus``: shared CPUs; ``dedicated``: dedicated CPUs; ``cores``: the CPUs of each core.

    ``pages``: page size in KiB → number of pages. ``physnets``: physical networks whose cards are near the cell;
    ``tunneled``: the card of overlay networks is.
    """

    memory_mib: int
    cpus: str = ""
    dedicated: str = ""
    cores: tuple[str, ...] = ()
    pages: Mapping[str, int] = field(default_factory=dict)
    socket: int | None = None
    physnets: tuple[str, ...] = ()
    tunneled: bool = False

    def reported(self, number: int) -> HostCell:
        """Return the cell as a hypervisor reports it. Raises: ValueError for an invalid CPU list or number."""
        return HostCell(
            id=number,
            cpuset=parse_cpus(self.cpus),
            pcpuset=parse_cpus(self.dedicated),
            memory_mib=self.memory_mib,
            siblings=tuple(parse_cpus(core) for core in self.cores),
            pages=tuple(Pages(size, total) for size, total in sorted((int(key), n) for key, n in self.pages.items())),
            socket=self.socket,
            physnets=frozenset(self.physnets),
            tunneled=self.tunneled,
        )


@dataclass(frozen=True, slots=True)
class SimulatedPool:
    """A pool of ``count`` equal PCI devices. ``numa_node``: number of the devices' NUMA cell, None if unknown.

    ``card_serial_number``, ``pf_mac_address``: for virtual functions, of their network card and physical function;
    empty if the host does not know them.
    """

    vendor_id: str
    product_id: str
    count: int = 1
    numa_node: int | None = None
    dev_type: str = STANDARD
    tags: Mapping[str, str] = field(default_factory=dict)
    card_serial_number: str = ""
    pf_mac_address: str = ""

    def reported(self, number: int) -> PciPool:
        """Return the pool as a hypervisor reports it."""
        tags = tuple(sorted(self.tags.items()))
        # Each pool has its own PCI domain; its devices are numbered by function, then slot, then bus.
        slots = [(device // 256, device % 256 // 8, device % 8) for device in range(self.count)]
        addresses = tuple(f"{number:04x}:{bus:02x}:{slot:02x}.{function}" for bus, slot, function in slots)
        facts = self.vendor_id, self.product_id, self.count, self.numa_node, self.dev_type, tags
        return PciPool(number, *facts, addresses=addresses, cards=self._cards(addresses))

    def _cards(self, addresses: Sequence[str]) -> tuple[tuple[str, CardFacts], ...]:
        if not (self.card_serial_number or self.pf_mac_address):
            return ()
        serial, mac = self.card_serial_number or None, self.pf_mac_address or None
        numbered = enumerate(addresses)
        return tuple(
            (address, CardFacts(card_serial_number=serial, pf_mac_address=mac, vf_num=vf)) for vf, address in numbered
        )


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """One simulated hypervisor.

    ``traits``: traits reported in addition to those derived from capabilities and models; ``lacks``: traits not
    reported. ``models``: image property → supported device models. The spawn of a guest that requests any other model
    fails. A property without an entry is not checked and yields no trait.
    ``metrics``: metrics that the host reports, by name.
    ``spawn_delay_s``, ``destroy_delay_s``: duration of a spawn and of a destroy. ``failing_spawns``: number of spawns
    that fail before the first that succeeds (-1: all spawns fail).
    ``shutdown_delay_s``: time that its guests take to shut down on request (-1: they never shut down);
    ``start_delay_s``: time to power on a guest.
    ``move_delay_s``: duration of each step of a resize or cold migration. ``failing_moves``: number of moves to this
    host that fail; live migrations fail before the copy starts. ``live_migration_s``: time to copy a running guest from
    this host to another. ``failing_live_migrations``: number of these copies that fail at their end.
    ``snapshot_delay_s``: time to copy a disk, before the copy is uploaded as an image. ``failing_snapshots``: number of
    these copies that fail.
    ``starts_paused``: whether a guest is started paused if the network service has not plugged its ports yet.
    ``disabled``: reason why the operator disabled the host's compute service; empty if the service is enabled. The
    simulated hypervisor ignores this field; the player of the scenario disables the service.
    """

    name: str
    node: str = ""
    vcpus: int = 32
    memory_mib: int = 131072
    disk_gib: int = 2000
    capabilities: Capabilities = DEFAULT_CAPABILITIES
    traits: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    inventories: Mapping[str, int] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    spawn_delay_s: float = 0.0
    destroy_delay_s: float = 0.0
    failing_spawns: int = 0
    shutdown_delay_s: float = 0.0
    start_delay_s: float = 0.0
    move_delay_s: float = 0.0
    failing_moves: int = 0
    live_migration_s: float = 0.0
    failing_live_migrations: int = 0
    snapshot_delay_s: float = 0.0
    failing_snapshots: int = 0
    starts_paused: bool = False
    disabled: str = ""
    numa: tuple[SimulatedCell, ...] = ()
    pci: tuple[SimulatedPool, ...] = ()

    @property
    def hypervisor_hostname(self) -> str:
        return self.node or self.name

    @property
    def devices(self) -> HostDevices:
        """The NUMA cells and PCI devices that the hypervisor reports."""
        cells = tuple(cell.reported(number) for number, cell in enumerate(self.numa))
        return HostDevices(cells, tuple(pool.reported(number) for number, pool in enumerate(self.pci)))

    @property
    def reported_traits(self) -> tuple[str, ...]:
        """Return the traits that the hypervisor reports to Placement."""
        own = str(self.capabilities.cpu_info.get("arch", ""))
        runs = [architecture for architecture, _, _ in self.capabilities.supported_instances]
        architecture = trait_of("hw_architecture", own if own in runs or not runs else runs[0])
        models = [trait_of(name, value) for name, values in self.models.items() for value in values]
        every = [*CAPABILITY_TRAITS, architecture, *models, *self.traits]
        return tuple(dict.fromkeys(trait for trait in every if trait is not None and trait not in self.lacks))

    @property
    def missing_abilities(self) -> frozenset[Ability]:
        """The abilities that this host lacks, of those that the driver of simulated hosts has."""
        named = self.capabilities.abilities
        return frozenset() if named is None else frozenset(Ability).difference(named)

    def why_not(self, image_properties: Mapping[str, Any]) -> str | None:
        """Return the reason why this host cannot create a guest of an image, or None.

        Users read the reason, so it names no host.
        """
        model = unsupported(image_properties, self.models)
        return None if model is None else f"The hypervisor does not support {model.property}={model.value}."

    def reported_inventories(self, ratios: AllocationRatios) -> tuple[Inventory, ...]:
        """Return the inventories reported to Placement; resource classes with a total of zero are left out.

        If the host has NUMA cells, their CPUs are counted instead of ``vcpus``: shared CPUs as VCPU, dedicated CPUs as
        PCPU.
        """
        reserved = min(ratios.reserved_memory_mib, self.memory_mib)
        cells = self.devices.cells
        vcpus = sum(len(cell.cpuset) for cell in cells) if cells else self.vcpus
        pcpus = sum(len(cell.pcpuset) for cell in cells)
        standard = (
            Inventory("VCPU", vcpus, 0, 1, vcpus, 1, ratios.cpu),
            Inventory("PCPU", pcpus, 0, 1, pcpus, 1, 1.0),
            Inventory("MEMORY_MB", self.memory_mib, reserved, 1, self.memory_mib, 1, ratios.memory),
            Inventory("DISK_GB", self.disk_gib, 0, 1, self.disk_gib, 1, ratios.disk),
        )
        extra = tuple(Inventory(name, total, max_unit=total) for name, total in self.inventories.items())
        return tuple(inventory for inventory in (*standard, *extra) if inventory.total > 0)


@dataclass(frozen=True, slots=True)
class ScenarioAggregate:
    """A host aggregate. In the values of ``metadata``, ``${project:demo}`` stands for the id of the project demo."""

    name: str
    zone: str | None = None
    hosts: tuple[str, ...] = ()
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScenarioFlavor:
    name: str
    id: str | None = None
    vcpus: int = 1
    memory_mib: int = 512
    disk_gib: int = 1
    public: bool = True
    extra_specs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScenarioImage:
    name: str
    disk_format: str = "raw"
    properties: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScenarioGroup:
    """A server group. ``max_server_per_host``: only for ``anti-affinity``."""

    name: str
    policy: str
    project: str = "admin"
    max_server_per_host: int | None = None


@dataclass(frozen=True, slots=True)
class ScenarioServer:
    """Servers created by one request, with their expected outcome.

    ``zone``: as in the API: ``ZONE``, ``ZONE:HOST`` or ``ZONE:HOST:NODE``.
    ``remote_address``: address of the client, for scheduler drivers that use it.
    ``expect``: hosts on which the servers may be; empty if the request must fail.
    ``uses``: hosts of ``expect``, each of which must get at least one of the servers.
    ``refused_by``: the rule that must reject the last remaining host, or ``spawn`` if the hypervisors must fail.
    """

    name: str
    flavor: str
    image: str
    count: int = 1
    project: str = "admin"
    zone: str | None = None
    group: str | None = None
    hints: Mapping[str, str] = field(default_factory=dict)
    remote_address: str | None = None
    expect: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    refused_by: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the servers; several servers are numbered, as in the API."""
        return (self.name,) if self.count == 1 else tuple(f"{self.name}-{number + 1}" for number in range(self.count))

    @property
    def target(self) -> tuple[str | None, str | None, str | None]:
        """The parts of the field ``zone``: (zone, forced host, forced node)."""
        zone, host, node = (*(self.zone or "").split(":"), "", "")[:3]
        return zone or None, host or None, node or None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster and a workload.

    ``options``: the operator's configuration, group → option → value; the value of a multi-valued option is a list.
    ``python_path``: folders of the Python modules that the options name.
    """

    name: str
    about: str = ""
    hosts: tuple[SimulatedHost, ...] = ()
    aggregates: tuple[ScenarioAggregate, ...] = ()
    flavors: tuple[ScenarioFlavor, ...] = ()
    images: tuple[ScenarioImage, ...] = ()
    groups: tuple[ScenarioGroup, ...] = ()
    servers: tuple[ScenarioServer, ...] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    python_path: tuple[str, ...] = ()


def default_hosts(count: int, prefix: str = "node") -> tuple[SimulatedHost, ...]:
    """Return ``count`` equal hosts, named ``prefix`` followed by a number: 1, 2, …."""
    return tuple(SimulatedHost(name=f"{prefix}{number}") for number in range(1, count + 1))


def projects_named(text: str) -> tuple[str, ...]:
    """Return the projects that a metadata value refers to."""
    return tuple(_PROJECT_REFERENCE.findall(text))


def with_project_ids(scenario: Scenario, ids: Mapping[str, str]) -> Scenario:
    """Return the scenario with project references in metadata replaced by the projects' ids."""

    def filled(text: str) -> str:
        return _PROJECT_REFERENCE.sub(lambda found: ids[found[1]], text)

    aggregates = tuple(
        replace(aggregate, metadata={key: filled(value) for key, value in aggregate.metadata.items()})
        for aggregate in scenario.aggregates
    )
    return replace(scenario, aggregates=aggregates)
