# SPDX-License-Identifier: Apache-2.0
"""Quotas: what is limited, what servers use of it, and how many more a limit leaves room for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from kilonova.model.flavor import Flavor

UNLIMITED = -1
#: What servers use up. Units: ``ram`` in MiB.
COUNTED = ("instances", "cores", "ram")
INJECTED_FILES = ("injected_files", "injected_file_content_bytes", "injected_file_path_bytes")
SERVER_GROUPS = ("server_groups", "server_group_members")
#: Of the networks that Nova once had: stored and shown to old clients, and nothing is ever counted.
NETWORKS = ("fixed_ips", "floating_ips", "security_group_rules", "security_groups")
RESOURCES = (*COUNTED, "metadata_items", "key_pairs", *SERVER_GROUPS, *INJECTED_FILES, *NETWORKS)
#: The class that every project without limits of its own belongs to.
DEFAULT_CLASS = "default"

#: Resource → its limit; -1 stands for none.
Limits = Mapping[str, int]
NO_LIMITS: Limits = dict.fromkeys(RESOURCES, UNLIMITED)


@dataclass(frozen=True, slots=True)
class Usage:
    """What servers count, named like the limits. Units: ``ram`` in MiB."""

    instances: int = 0
    cores: int = 0
    ram: int = 0

    @classmethod
    def of(cls, flavor: Flavor) -> "Usage":
        """Return what one server of a flavor counts."""
        return cls(1, flavor.vcpus, flavor.memory_mib)

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.instances + other.instances, self.cores + other.cores, self.ram + other.ram)

    def __mul__(self, times: int) -> "Usage":
        return Usage(self.instances * times, self.cores * times, self.ram * times)

    def beyond(self, other: "Usage") -> "Usage":
        """Return by how much each resource is more than in ``other``."""
        return Usage(*(max(0, amount - getattr(other, name)) for name, amount in self.items()))

    def items(self) -> Iterator[tuple[str, int]]:
        return ((name, getattr(self, name)) for name in COUNTED)


@dataclass(frozen=True, slots=True)
class QuotaRequest:
    """Servers that somebody wants to make: at least ``at_least`` and at most ``at_most`` of them, ``each`` so big.

    ``limits``: those in force where they are kept elsewhere; None when they are in the database.
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
    """Return how many of ``wanted`` servers fit under the limits."""
    for name in COUNTED:
        limit, size = limits[name], getattr(each, name)
        if limit >= 0 and size > 0:
            wanted = min(wanted, max(0, limit - getattr(used, name)) // size)
    return wanted


def shortage(each: Usage, count: int, used: Usage, limits: Limits) -> str:
    """Say why ``count`` servers do not all fit: each resource that is short, with its figures."""
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
