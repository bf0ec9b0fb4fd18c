# SPDX-License-Identifier: Apache-2.0
"""Forecasts that begin with a cloud as it is now: its hosts, and its servers with what they hold."""

from collections.abc import Mapping

import numpy as np

from kilonova.planning.cloud import Cloud
from kilonova.planning.forecast.draws import durations
from kilonova.planning.forecast.forecast import Beginning
from kilonova.planning.forecast.scenario import Distribution
from kilonova.planning.forecast.server_kinds import KindName, Kinds, ServerKind
from kilonova.planning.forecast.virtual_cloud import Held, always_up
from kilonova.planning.forecast.workload import NONE, Servers
from kilonova.planning.planned_server import PlannedServer


def beginning_of(
    cloud: Cloud, kinds: Kinds, lifetimes: Distribution | None, down_time_s: float, rng: np.random.Generator
) -> Beginning:
    """Return a planned cloud as the beginning of a forecast.

    ``lifetimes``: remaining lifetimes of its servers; None: they are never deleted. ``down_time_s``: silence after
    which a host is down; such hosts stay down.
    """
    servers = [cloud.servers[uuid] for uuid in sorted(cloud.servers)]
    numbers = _kinds_of(servers, kinds)
    names = sorted({each.group_uuid for each in servers if each.group_uuid in cloud.groups and each.group_uuid})
    places = {uuid: place for place, uuid in enumerate(names)}
    count = len(servers)
    left = np.full(count, np.inf) if lifetimes is None else durations(lifetimes, count, rng)
    present = Servers.of(np.zeros(count), left, np.array(numbers, dtype=np.int64))
    present.group[:] = [places.get(each.group_uuid or "", NONE) for each in servers]
    held: Mapping[int, tuple[int, Held]] = {
        number: (each.row, Held(each.allocations, each.share)) for number, each in enumerate(servers)
    }
    return Beginning(
        hosts=always_up(cloud.hosts, down_time_s),
        kinds=kinds,
        present=present,
        held=held,
        groups=tuple(cloud.groups[uuid] for uuid in names),
    )


def _kinds_of(servers: list[PlannedServer], kinds: Kinds) -> list[int]:
    """Return the number of the kind of each server; servers that share a request are of one kind."""
    known: dict[int, int] = {}
    found = []
    for each in servers:
        number = known.get(id(each.spec))
        if number is None:
            spec = each.spec.of_new_server()
            image = "" if spec.image is None else spec.image.name
            name = KindName(spec.flavor.name, image, spec.project_id, spec.availability_zone or "")
            number = known[id(each.spec)] = kinds.add(ServerKind(name, spec, each.needs, each.guest))
        found.append(number)
    return found
