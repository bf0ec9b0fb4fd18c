# SPDX-License-Identifier: Apache-2.0
"""Compute services, hypervisor nodes, and the reports of agents about them."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from typing import Any, Final

from kilonova.model.ability import Ability
from kilonova.model.host_devices import NOTHING, HostDevices
from kilonova.model.provider import Inventory
from kilonova.records import dataclass

#: Traits of the resource provider of every hypervisor node. ``OWNER_NOVA``: only Nova (here Kilonova) may change the
#: provider.
NODE_TRAITS = ("COMPUTE_NODE", "OWNER_NOVA")
#: Value of ``Service.binary`` for compute services.
COMPUTE: Final = "nova-compute"
#: Hypervisor type → abilities that its driver did not have in the previous release. Agents of that release report no
#: abilities, so their drivers are assumed to have all abilities except these.
_LACKED_BEFORE = {"QEMU": frozenset({Ability.COLD_MIGRATE, Ability.LIVE_MIGRATE})}


@dataclass(frozen=True, slots=True)
class Service:
    """A service on a host, as `openstack compute service list` shows it.

    ``process_is_up``: whether the process that runs the service is considered up. A process may be considered up for
    some time after its lease has expired. ``last_seen_at``: time of the last heartbeat of that process.
    ``declared_down``: whether the service-group driver declares the host down.
    """

    id: int
    uuid: str
    host: str
    binary: str
    disabled: bool = False
    disabled_reason: str | None = None
    forced_down: bool = False
    process_is_up: bool = False
    last_seen_at: datetime | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    declared_down: bool = False

    @property
    def is_up(self) -> bool:
        """True if the process is up, and the service is neither forced nor declared down."""
        return self.process_is_up and not (self.forced_down or self.declared_down)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a hypervisor. Many hosts have equal capabilities, so rules evaluate each distinct value once.

    ``supported_instances``: (architecture, hypervisor type, vm mode) triples.
    ``hypervisor_version``: an integer in libvirt's form: 1,000,000 * major + 1,000 * minor + micro.
    ``extra``: additional values, which scheduler rules read by name.
    ``abilities``: sorted names of the driver's optional abilities; names unknown to this release are ignored. None if
    the agent's release does not report abilities (:meth:`can`).
    """

    hypervisor_type: str = "fake"
    hypervisor_version: int = 0
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    cpu_info: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    abilities: tuple[str, ...] | None = None

    def can(self, ability: Ability) -> bool:
        """Return whether the driver of the host has an ability.

        If the agent's release does not report abilities, the host is assumed to have all that its driver had in that
        release.
        """
        if self.abilities is None:
            return ability not in _LACKED_BEFORE.get(self.hypervisor_type, frozenset())
        return ability in self.abilities


@dataclass(frozen=True, slots=True)
class ComputeNode:
    """A hypervisor node, keyed by (host, hypervisor_hostname). Its resource provider has the same uuid.

    ``metrics``: name → last reported value.
    """

    uuid: str
    host: str
    hypervisor_hostname: str
    capabilities: Capabilities
    host_ip: str = "127.0.0.1"
    metrics: Mapping[str, float] = field(default_factory=dict)
    failed_builds: int = 0
    created_at: datetime | None = None
    updated_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeReport:
    """An agent's report of one hypervisor node, sent at start and after each change.

    ``metrics``: measurements by name, such as ``cpu.percent``; finite numbers.
    ``devices``: the node's NUMA cells and PCI pools. Their usage and the pool numbers in the report are ignored.
    """

    host: str
    hypervisor_hostname: str
    capabilities: Capabilities
    inventories: tuple[Inventory, ...]
    traits: tuple[str, ...] = ()
    host_ip: str = "127.0.0.1"
    metrics: Mapping[str, float] = field(default_factory=dict)
    devices: HostDevices = NOTHING
