# SPDX-License-Identifier: Apache-2.0
"""Operator API: its routes and rules. It has a single version, JSON bodies, and faults in Nova's format."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import orjson

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.nova_style import NovaStyle, read_json
from kilonova.api.operator import (
    capacity,
    changes,
    decisions,
    diff_job,
    drain,
    explain,
    forecast_job,
    health,
    host_usage,
    hosts,
    isolation,
    jobs,
    metrics,
    options,
    plans,
    preview,
    preview_job,
    read_only,
    rebalance_job,
    servers,
    stray_ports,
    strays,
    unread,
    workflows,
)
from kilonova.api.operator.openapi import document
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ANYONE, rule

VERSION = Version(1, 0)
RESOURCES = (
    capacity,
    changes,
    decisions,
    drain,
    explain,
    health,
    host_usage,
    hosts,
    isolation,
    jobs,
    metrics,
    options,
    plans,
    preview,
    read_only,
    servers,
    stray_ports,
    strays,
    unread,
    workflows,
)
RULES = (
    *(each for resource in (*RESOURCES, diff_job, forecast_job, preview_job, rebalance_job) for each in resource.RULES),
    rule("kilonova:openapi:show", ANYONE, "Show the OpenAPI document", ("GET", "/operator/v1/openapi.json")),
)


def _show_versions(ctx: Context, request: Request) -> Reply:
    """GET /.  Lists the only version."""
    del ctx
    links = [{"rel": "self", "href": f"{request.root_url}/v1"}]
    return Reply(200, {"versions": [{"id": "v1.0", "status": "CURRENT", "links": links}]})


def _show_document(ctx: Context, request: Request) -> Reply:
    """GET /v1/openapi.json.  The description of this API, as an OpenAPI document."""
    del request
    ctx.authorize("kilonova:openapi:show")
    return Reply(200, _document())


@cache
def _document() -> bytes:
    return orjson.dumps(document(_ROUTES, RULES))


_ROUTES: Routes = {
    "/": {"GET": Endpoint(_show_versions)},
    "/v1": {"GET": Endpoint(_show_versions)},
    "/v1/openapi.json": {"GET": Endpoint(_show_document, query=NO_QUERY)},
    **{template: endpoints for resource in RESOURCES for template, endpoints in resource.ROUTES.items()},
}


class OperatorFamily(NovaStyle):
    """The operator API, which is Kilonova's own API for administrators."""

    name = "operator"
    routes: Routes = _ROUTES

    def version(self, headers: Mapping[str, str], path: str) -> Version:
        del headers, path
        return VERSION

    def version_headers(self, version: Version | None) -> dict[str, str]:
        del version
        return {}

    def needs_token(self, path: str, method: str) -> bool:
        del method
        return path.rstrip("/") not in {"", "/v1"}

    def decode_body(self, method: str, content_type: str | None, raw: bytes, version: Version) -> Any:
        del method, content_type, version
        return read_json(raw) if raw else None
