# SPDX-License-Identifier: Apache-2.0
"""Kinds of servers: all servers of one kind have the same request. A forecast has few of them."""

from collections.abc import Mapping
from dataclasses import field
from typing import NamedTuple, TypeVar

from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.planning.forecast.scenario import ScenarioError
from kilonova.records import dataclass
from kilonova.scheduler.devices.choice import DeviceNeeds, needs_of
from kilonova.scheduler.devices.pci_request import Alias
from kilonova.scheduler.guests import GuestKind, guest_of
from kilonova.scheduler.resources import with_resources

MOST_KINDS = 100_000
T = TypeVar("T")


class KindName(NamedTuple):
    """What distinguishes the kinds of a scenario; ``image``, ``zone``: "" for none."""

    flavor: str
    image: str = ""
    project: str = ""
    zone: str = ""
    hints: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ServerKind:
    """One kind. ``spec``: the request of a new server, with its Placement query. ``guest``: for counts of guests."""

    name: KindName
    spec: RequestSpec
    needs: DeviceNeeds
    guest: GuestKind

    @classmethod
    def of(cls, name: KindName, spec: RequestSpec, aliases: Mapping[str, Alias]) -> "ServerKind":
        """Return the kind of a request. Raises: InvalidRequest, for contradictory NUMA or PCI options."""
        return cls(name, spec, needs_of(spec, aliases), guest_of(spec))


@dataclass(frozen=True, slots=True)
class Catalog:
    """The flavors, images and projects that a scenario can name. ``zones``: None: any zone can be named.

    ``project_ids``: project name → id; a name that is absent is an id. ``aliases``: the configured PCI aliases.
    """

    flavors: Mapping[str, Flavor]
    images: Mapping[str, Image] = field(default_factory=dict)
    project_ids: Mapping[str, str] = field(default_factory=dict)
    zones: frozenset[str] | None = None
    default_zone: str | None = None
    aliases: Mapping[str, Alias] = field(default_factory=dict)


class Kinds:
    """The kinds of a scenario, numbered in the order in which they are first named."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._numbers: dict[KindName, int] = {}
        self.all: list[ServerKind] = []

    def number(self, name: KindName, place: str) -> int:
        """Return the number of a kind. ``place``: path of the part that names it.

        Raises: ScenarioError, InvalidRequest.
        """
        number = self._numbers.get(name)
        if number is None:
            if len(self.all) >= MOST_KINDS:
                raise ScenarioError(
                    place, f"there may be at most {MOST_KINDS} combinations of flavor, image and project"
                )
            number = self.add(ServerKind.of(name, self._request(name, place), self.catalog.aliases))
            self._numbers[name] = number
        return number

    def add(self, kind: ServerKind) -> int:
        """Add a kind that no name stands for, and return its number."""
        self.all.append(kind)
        return len(self.all) - 1

    def _request(self, name: KindName, place: str) -> RequestSpec:
        catalog = self.catalog
        flavor = _known(catalog.flavors, name.flavor, f"{place}.flavors", "flavor")
        image = _known(catalog.images, name.image, f"{place}.images", "image") if name.image else None
        if name.zone and catalog.zones is not None and name.zone not in catalog.zones:
            raise ScenarioError(f"{place}.zones", f"unknown zone {name.zone!r}")
        project = catalog.project_ids.get(name.project, name.project)
        return with_resources(
            RequestSpec(
                flavor=flavor,
                image=image,
                project_id=project,
                user_id=project,
                availability_zone=name.zone or catalog.default_zone,
                hints={hint: (value,) for hint, value in name.hints},
            )
        )


def _known(known: Mapping[str, T], name: str, place: str, kind: str) -> T:
    if name not in known:
        listed = f"; known: {', '.join(sorted(known))}" if 0 < len(known) <= 20 else ""
        raise ScenarioError(place, f"unknown {kind} {name!r}{listed}")
    return known[name]
