# SPDX-License-Identifier: Apache-2.0
"""What refuses the next server in each aggregate or availability zone, and how many servers fit there."""

from collections.abc import Iterable

import numpy as np

from kilonova.planning.hindrance import Hindrance, hindrances_of
from kilonova.records import dataclass
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray


@dataclass(frozen=True, slots=True)
class Place:
    """An aggregate or an availability zone. ``name``: None for the hosts that are in no aggregate.

    Shapes: ``members`` (H,).
    """

    name: str | None
    members: BoolArray


@dataclass(frozen=True, slots=True)
class PlaceCapacity:
    """The part of an answer about one place.

    ``hosts``: number of its hosts. ``fits``: how many of the servers that fit in the cloud go to these hosts.
    ``reasons``: why each of these hosts rejects the next server, in the order of the rules.
    """

    name: str | None
    hosts: int
    fits: int
    reasons: tuple[Hindrance, ...]


def aggregates(hosts: HostTable) -> tuple[Place, ...]:
    """Return the aggregates that have hosts, in the order of their ids, and last the hosts that are in none."""
    index = hosts.aggregates
    found = [Place(each.name, members) for each, members in zip(index.aggregates, index.membership, strict=True)]
    found.append(Place(None, ~np.logical_or.reduce(index.membership, axis=0, initial=False)))
    return tuple(place for place in found if place.members.any())


def zones(hosts: HostTable, default: str) -> tuple[Place, ...]:
    """Return the availability zones that have hosts, by name. ``default``: the zone of hosts that are in no other."""
    names = hosts.aggregates.zone_names(default)
    return tuple(Place(name, names == name) for name in sorted(set(names.tolist())))


def by_place(places: Iterable[Place], placed: IntArray, refusal: Decision) -> tuple[PlaceCapacity, ...]:
    """Return what an answer says about each place.

    ``placed``: number of servers placed on each host. ``refusal``: the decision that refused the next server.
    Shapes: ``placed`` (H,).
    """
    found = []
    for place in places:
        members = place.members
        fits = int(placed[members].sum())
        found.append(PlaceCapacity(place.name, int(members.sum()), fits, hindrances_of(refusal, members)))
    return tuple(found)
