# SPDX-License-Identifier: Apache-2.0
"""A scenario as values: which hosts there are, how they are grouped, what is asked for and where it should land.

Units as in the names. ``servers[].expect`` lists the hosts that may be used; an empty list says that none fits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kilonova.model.host import Capabilities

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


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """One simulated hypervisor.

    ``spawn_delay_s``: how long a spawn takes. ``failing_spawns``: how many spawns fail before one succeeds (-1: all).
    """

    name: str
    node: str = ""
    vcpus: int = 32
    memory_mib: int = 131072
    disk_gib: int = 2000
    capabilities: Capabilities = DEFAULT_CAPABILITIES
    traits: tuple[str, ...] = ()
    inventories: Mapping[str, int] = field(default_factory=dict)
    spawn_delay_s: float = 0.0
    destroy_delay_s: float = 0.0
    failing_spawns: int = 0

    @property
    def hypervisor_hostname(self) -> str:
        return self.node or self.name


@dataclass(frozen=True, slots=True)
class ScenarioAggregate:
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
    name: str
    policy: str
    max_server_per_host: int | None = None


@dataclass(frozen=True, slots=True)
class ScenarioServer:
    """Servers of one request. ``project``: ``admin`` or ``demo``. ``refused_by``: the rule that leaves no host."""

    name: str
    flavor: str
    image: str
    count: int = 1
    project: str = "admin"
    zone: str | None = None
    group: str | None = None
    hints: Mapping[str, str] = field(default_factory=dict)
    expect: tuple[str, ...] = ()
    refused_by: str | None = None


@dataclass(frozen=True, slots=True)
class Scenario:
    """A cluster and a workload. ``options``: (group, option) → value, what the operator's configuration sets."""

    name: str
    about: str = ""
    hosts: tuple[SimulatedHost, ...] = ()
    aggregates: tuple[ScenarioAggregate, ...] = ()
    flavors: tuple[ScenarioFlavor, ...] = ()
    images: tuple[ScenarioImage, ...] = ()
    groups: tuple[ScenarioGroup, ...] = ()
    servers: tuple[ScenarioServer, ...] = ()
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def default_hosts(count: int) -> tuple[SimulatedHost, ...]:
    """Return ``count`` equal hosts, node1 … nodeN."""
    return tuple(SimulatedHost(name=f"node{number}") for number in range(1, count + 1))
