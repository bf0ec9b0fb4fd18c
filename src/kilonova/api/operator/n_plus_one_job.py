# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``n-plus-one``: whether the servers of lost hosts fit elsewhere, and how many are left over."""

from collections.abc import Iterable
from typing import Any

from kilonova.api.http import Context
from kilonova.api.operator.job_kind import JobKind
from kilonova.api.operator.schemas.n_plus_one import N_PLUS_ONE
from kilonova.api.operator.views import hindrances_view
from kilonova.claims.cloud_snapshot import loaded_cloud
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.planning.cloud import Cloud
from kilonova.planning.losses import LeftOver, Loss, Losses, ZoneLosses

MOST_LOSSES = 100
"""Limit of the number of losses in a result, the worst first."""
_MOST_SERVERS = 20
_LOADED = 0.2


def prepare(ctx: Context, parameters: Any) -> Any:
    """Return the parameters with the zone of hosts that are in none."""
    return {**parameters, "default_zone": ctx.backend.settings.compute.default_availability_zone}


def run(context: JobContext, prepared: Any) -> Any:
    """Try the losses on one snapshot."""
    context.progress(0.0, "loading the cloud")
    taken = loaded_cloud(context.cloud)
    lose, default, cloud = prepared["lose"], prepared["default_zone"], taken.cloud
    losses = Losses(cloud, context.search(_LOADED, "losses in zones"))
    if lose == "host":
        found = hosts_view(cloud, _of_hosts(context, Losses(cloud)))
    elif lose == "zone":
        found = _zones_view(cloud, losses.of_zones(default))
    else:
        found = _zones_view(cloud, losses.of_any(int(lose), default))
    return {"seq": taken.seq, "lose": lose, "hosts": len(cloud.hosts), "servers": len(cloud.servers), **found}


def _of_hosts(context: JobContext, losses: Losses) -> Iterable[Loss]:
    names = list(losses.cloud.hosts.rows_of_host())
    for number, name in enumerate(names):
        context.progress(_LOADED + (1 - _LOADED) * number / len(names), f"loss of {name}")
        yield losses.of_host(name)


def hosts_view(cloud: Cloud, losses: Iterable[Loss]) -> dict[str, Any]:
    """Return what a result says about the losses of single hosts."""
    failing = [loss for loss in losses if loss.left_over]
    failing.sort(key=lambda loss: (-len(loss.left_over), loss.rows))
    return {
        "survives": not failing,
        "failing": len(failing),
        "losses": [_loss_view(cloud, loss) for loss in failing[:MOST_LOSSES]],
    }


def _zones_view(cloud: Cloud, zones: Iterable[ZoneLosses]) -> dict[str, Any]:
    found = list(zones)
    verdicts = {zone.survives for zone in found}
    return {
        "survives": False if False in verdicts else None if None in verdicts else True,
        "failing": sum(zone.survives is False for zone in found),
        "losses": [
            {
                "zone": zone.zone,
                "zone_hosts": zone.hosts,
                "lost": zone.k,
                "sets": zone.sets,
                "tried": zone.tried,
                "survives": zone.survives,
                "worst": None if zone.worst is None else _loss_view(cloud, zone.worst),
            }
            for zone in found
        ],
    }


def _loss_view(cloud: Cloud, loss: Loss) -> dict[str, Any]:
    return {
        "hosts": sorted({cloud.hosts.hosts[row] for row in loss.rows})[:MOST_LOSSES],
        "servers": loss.servers,
        "left_over": len(loss.left_over),
        "stays": [_left_view(each) for each in loss.left_over[:_MOST_SERVERS]],
    }


def _left_view(left: LeftOver) -> dict[str, Any]:
    return {"server": left.server.uuid, "name": left.server.name, "reasons": hindrances_view(left.reasons)}


KIND = JobKind(
    name="n-plus-one",
    title="Tell whether the servers of lost hosts fit elsewhere",
    parameters=N_PLUS_ONE,
    prepare=prepare,
    run=run,
    rule="kilonova:capacity",
)
