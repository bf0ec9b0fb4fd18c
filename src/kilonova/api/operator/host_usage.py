# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/hosts/usage: the usage of all hosts as columns, or of those that changed since an answer."""

from typing import Any

import numpy as np

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.operator.schemas import hosts as schemas
from kilonova.api.policy import ADMIN, rule
from kilonova.api.usage_history import HostUsage
from kilonova.scheduler.host_table import IntArray

RULES = (rule("kilonova:hosts:usage", ADMIN, "Show the usage of all hosts", ("GET", "/operator/v1/hosts/usage")),)


def show_usage(ctx: Context, request: Request) -> Reply:
    """GET /v1/hosts/usage.  Errors: 400 naming the parameter."""
    ctx.authorize("kilonova:hosts:usage")
    history, known = ctx.backend.usage_history, request.param("after")
    usage, earlier = _present(ctx), history.find(known)
    rows = None if earlier is None else usage.changed_since(earlier)
    version = known if known is not None and rows is not None and not len(rows) else history.add(usage)
    wanted = set(request.query.get("resource", usage.classes))
    whole = rows is None
    body = _view(usage, np.arange(len(usage.hosts)) if rows is None else rows, wanted)
    return Reply(200, {"seq": usage.seq, "version": version, "whole": whole, **body})


def _present(ctx: Context) -> HostUsage:
    mirror, compute = ctx.backend.mirror, ctx.backend.settings.compute
    mirror.catch_up()
    with mirror.lock:
        table, seq = mirror.hosts(), mirror.seq
    return HostUsage.of(
        table, seq, service_down_time_s=compute.service_down_time_s, default_zone=compute.default_availability_zone
    )


def _view(usage: HostUsage, rows: IntArray, wanted: set[str]) -> dict[str, Any]:
    listed = rows.tolist()
    return {
        "hosts": [usage.hosts[row] for row in listed],
        "nodes": [usage.nodes[row] for row in listed],
        "zones": [usage.zones[row] for row in listed],
        "up": usage.up[rows].tolist(),
        "disabled": usage.disabled[rows].tolist(),
        "servers": usage.servers[rows].tolist(),
        "resources": {
            name: {
                "capacity": usage.capacity[rows, column].tolist(),
                "used": usage.used[rows, column].tolist(),
            }
            for column, name in enumerate(usage.classes)
            if name in wanted
        },
    }


ROUTES: Routes = {"/v1/hosts/usage": {"GET": Endpoint(show_usage, query=schemas.USAGE)}}
