# SPDX-License-Identifier: Apache-2.0
"""Service hosts and the hypervisors on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from kilonova.model.ability import Ability
from kilonova.model.host_devices import NOTHING, HostDevices
from kilonova.model.provider import Inventory

#: Traits of every hypervisor: that it is one, and that it belongs to this service alone.
NODE_TRAITS = ("COMPUTE_NODE", "OWNER_NOVA")
#: The binary of the services that run guests.
COMPUTE: Final = "nova-compute"
#: What the drivers of the release before this one, whose agents report no abilities, lack, by hypervisor type.
_LACKED_BEFORE = {"QEMU": frozenset({Ability.COLD_MIGRATE, Ability.LIVE_MIGRATE})}


@dataclass(frozen=True, slots=True)
class Service:
    """A service on a host, as `openstack compute service list` shows it.

    ``process_is_up``: whether the process that it runs in counts as alive.
    ``last_seen_at``: when that process was heard of last.
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

    @property
    def is_up(self) -> bool:
        """Alive, and not forced down."""
        return self.process_is_up and not self.forced_down


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a hypervisor can do. Hosts of one make share an equal value, so rules look at each distinct one once.

    ``supported_instances``: (architecture, hypervisor type, vm mode) triples.
    ``hypervisor_version``: an integer as libvirt counts, 1,000,000 major + 1,000 minor + micro.
    ``extra``: anything else a rule may ask for by name.
    ``abilities``: names of what its driver can do beside the core of every driver, in order; those that this release
    does not know count for nothing. None: its agent is of a release that reported none (:meth:`can`).
    """

    hypervisor_type: str = "fake"
    hypervisor_version: int = 0
    supported_instances: tuple[tuple[str, str, str], ...] = ()
    cpu_info: Mapping[str, Any] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    abilities: tuple[str, ...] | None = None

    def can(self, ability: Ability) -> bool:
        """Tell whether it has an ability. One that reports none has those that its driver had in the release before."""
        if self.abilities is None:
            return ability not in _LACKED_BEFORE.get(self.hypervisor_type, frozenset())
        return ability in self.abilities


@dataclass(frozen=True, slots=True)
class ComputeNode:
    """A hypervisor, keyed by (host, hypervisor_hostname). Its uuid is also its resource provider's.

    ``metrics``: what it last measured of itself, by name.
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
    """What an agent says of one hypervisor at start and whenever it changes.

    ``metrics``: measurements by name, such as ``cpu.percent``; finite numbers.
    ``devices``: what there is; the agent's word on what is used of it does not count, nor do the numbers of pools.
    """

    host: str
    hypervisor_hostname: str
    capabilities: Capabilities
    inventories: tuple[Inventory, ...]
    traits: tuple[str, ...] = ()
    host_ip: str = "127.0.0.1"
    metrics: Mapping[str, float] = field(default_factory=dict)
    devices: HostDevices = NOTHING
