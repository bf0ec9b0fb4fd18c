# SPDX-License-Identifier: Apache-2.0
"""Routes below /operator/v1/hosts: hosts with their agents and hypervisors, and the images that a host has cached."""

from collections.abc import Mapping, Sequence
from typing import Any

from kilonova.api.compute.links import next_link
from kilonova.api.compute.times import stored_time
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.operator.known_names import require_host
from kilonova.api.operator.schemas import hosts as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.conductor.hosts.refused_agents import RefusedAgent
from kilonova.db import agent_sessions, compute_nodes
from kilonova.db.agent_sessions import HostAgent
from kilonova.errors import NotFound
from kilonova.model.ability import Ability
from kilonova.model.cached_image import CachedImage
from kilonova.model.host import ComputeNode

RULES = (
    rule("kilonova:hosts:list", ADMIN, "List hosts and their agents", ("GET", "/operator/v1/hosts")),
    rule("kilonova:hosts:images", ADMIN, "List the images of a host", ("GET", "/operator/v1/hosts/{host}/images")),
)
_PAGE = 1000


def list_hosts(ctx: Context, request: Request) -> Reply:
    """GET /v1/hosts.  Errors: 400 naming the parameter."""
    ctx.authorize("kilonova:hosts:list")
    asked, host = integer_param(request, "limit"), request.param("host")
    limit = min(_PAGE if asked is None else asked, ctx.backend.settings.api.max_limit)
    with ctx.read() as connection:
        require_host(connection, "host", host)
        rows = agent_sessions.list_page(connection, host=host, limit=limit + 1, marker=request.param("marker"))
        nodes = compute_nodes.list_by_hosts(connection, [row.host for row in rows[:limit]])
    refused = ctx.backend.conductor.refused_agents.by_host()
    body: dict[str, Any] = {"hosts": [_view(row, nodes.get(row.host, ()), refused) for row in rows[:limit]]}
    if limit and len(rows) > limit:
        body["hosts_links"] = [next_link(request, rows[limit - 1].host)]
    return Reply(200, body)


def list_images(ctx: Context, request: Request) -> Reply:
    """GET /v1/hosts/{host}/images.  Errors: 404; 501 without an image cache; 503 if the agent does not answer."""
    ctx.authorize("kilonova:hosts:images")
    host = request.path["host"]
    with ctx.read() as connection:
        if not agent_sessions.list_page(connection, host=host, limit=1, marker=None):
            raise NotFound(f"There is no host {host}.")
    images = ctx.backend.conductor.operations.host_images.list(host)
    return Reply(200, {"host": host, "images": [_image_view(image) for image in images]})


def _image_view(image: CachedImage) -> dict[str, Any]:
    return {
        "image": image.image_id or None,
        "name": image.name,
        "disk_format": image.disk_format or None,
        "size_bytes": image.size_bytes,
        "unused_s": image.unused_s,
        "guests": list(image.guests),
    }


def _view(row: HostAgent, nodes: Sequence[ComputeNode], refused: Mapping[str, RefusedAgent]) -> dict[str, Any]:
    return {
        "host": row.host,
        "state": "up" if row.up and not (row.forced_down or row.declared_down) else "down",
        "declared_down": bool(row.declared_down),
        "status": "disabled" if row.disabled else "enabled",
        "agent": row.agent,
        "process": row.process,
        "machine": row.machine or None,
        "release": row.release_version,
        "message_version": row.message_version,
        "last_seen_at": stored_time(row.last_seen_at),
        "refused": refused[row.host].reason if row.host in refused else None,
        "hypervisors": [_hypervisor_view(node) for node in nodes],
    }


def _hypervisor_view(node: ComputeNode) -> dict[str, Any]:
    """Return the view of a hypervisor: its names, its abilities, and the abilities that it lacks."""
    can = node.capabilities.can
    return {
        "hypervisor_hostname": node.hypervisor_hostname,
        "hypervisor_type": node.capabilities.hypervisor_type,
        "abilities": [ability.value for ability in Ability if can(ability)],
        "lacks": [ability.value for ability in Ability if not can(ability)],
    }


ROUTES: Routes = {
    "/v1/hosts": {"GET": Endpoint(list_hosts, query=schemas.LIST)},
    "/v1/hosts/{host}/images": {"GET": Endpoint(list_images, query=NO_QUERY)},
}
