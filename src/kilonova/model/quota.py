# SPDX-License-Identifier: Apache-2.0
"""Quotas: limited resources, their usage by servers, and checks of requests against limits."""

from collections.abc import Iterator, Mapping, Sequence

from kilonova.model.flavor import Flavor
from kilonova.records import dataclass

UNLIMITED = -1
#: Resources whose usage is the sum over servers. Units: ``ram`` in MiB.
COUNTED = ("instances", "cores", "ram")
INJECTED_FILES = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
SERVER_GROUPS = ("server_groups", "server_group_members")
#: Resources of nova-network. Their limits are stored and shown to old clients, but their usage is always 0.
NETWORKS = ("fixed_ips", "floating_ips", "security_group_rules", "security_groups")
RESOURCES = (*COUNTED, "metadata_items", "key_pairs", *SERVER_GROUPS, *INJECTED_FILES, *NETWORKS)
#: The quota class with the limits of projects for which no limits are set.
DEFAULT_CLASS = "default"

#: Resource → its limit; -1 means unlimited.
Limits = Mapping[str, int]
NO_LIMITS: Limits = dict.fromkeys(RESOURCES, UNLIMITED)


@dataclass(frozen=True, slots=True)
class QuotaTree:
    """Projects whose common usage is limited, such as all projects of a domain. ``name``: for error texts."""

    name: str
    projects: frozenset[str]
    limits: Limits


class NestedLimits(dict[str, int]):
    """Limits of a project that belongs to a tree: the limits of the tree apply to the usage of all its projects."""

    def __init__(self, limits: Limits, tree: QuotaTree) -> None:
        super().__init__(limits)
        self.tree = tree


@dataclass(frozen=True, slots=True)
class Usage:
    """Quota usage of servers, with the same names as the limits. Units: ``ram`` in MiB."""

    instances: int = 0
    cores: int = 0
    ram: int = 0

    @classmethod
    def of(cls, flavor: Flavor) -> "Usage":
        """Return the usage of one server with this flavor."""
        return cls(1, flavor.vcpus, flavor.memory_mib)

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.instances + other.instances, self.cores + other.cores, self.ram + other.ram)

    def __mul__(self, times: int) -> "Usage":
        return Usage(self.instances * times, self.cores * times, self.ram * times)

    def beyond(self, other: "Usage") -> "Usage":
        """Return, for each resource, the amount by which this usage exceeds ``other``, but at least 0."""
        return Usage(*(max(0, amount - getattr(other, name)) for name, amount in self.items()))

    def items(self) -> Iterator[tuple[str, int]]:
        return ((name, getattr(self, name)) for name in COUNTED)


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """A request to create ``at_most`` servers, or at least ``at_least`` if the quota does not allow more.

    ``each``: usage of one server. ``limits``: limits from an external service (unified limits); None to use the limits
    in the database.
    """

    project_id: str
    user_id: str
    each: Usage
    at_least: int
    at_most: int
    metadata_items: int = 0
    group_uuid: str | None = None
    limits: Limits | None = None


def room_for(each: Usage, used: Usage, limits: Limits, wanted: int) -> int:
    """Return how many of ``wanted`` servers the limits allow. ``each``: usage of one server; ``used``: usage so far."""
    for name in COUNTED:
        limit, size = limits[name], getattr(each, name)
        if limit >= 0 and size > 0:
            wanted = min(wanted, max(0, limit - getattr(used, name)) // size)
    return wanted


def shortage(each: Usage, count: int, used: Usage, limits: Limits) -> str:
    """Return the error text for ``count`` new servers that exceed the limits, with the figures of each exceeded limit.

    ``each``: usage of one server; ``used``: usage so far.
    """
    asked = each * count
    short = [
        (name, amount, getattr(used, name), limits[name])
        for name, amount in asked.items()
        if limits[name] >= 0 and amount > 0 and getattr(used, name) + amount > limits[name]
    ]
    names, requested, already, allowed = (_listed([row[index] for row in short]) for index in range(4))
    return f"Quota exceeded for {names}: Requested {requested}, but already used {already} of {allowed} {names}"


def _listed(values: Sequence[object]) -> str:
    return ", ".join(map(str, values))
