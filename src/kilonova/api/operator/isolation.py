# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/isolation: audit of the isolation of aggregates under the present rules.

The reply lists the pools of isolated hosts, and findings about the rules, such as leaks.
"""

from collections.abc import Sequence
from typing import Any

from kilonova import deadline
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.db import flavors, request_specs
from kilonova.model.placed_server import PlacedServer
from kilonova.scheduler.isolation.audit import Finding, Report, audit
from kilonova.scheduler.isolation.universe import Group, OfferedFlavor

RULES = (
    rule("kilonova:isolation:show", ADMIN, "Audit the isolation of aggregates", ("GET", "/operator/v1/isolation")),
)


def show_isolation(ctx: Context, request: Request) -> Reply:
    """GET /v1/isolation.  Errors: 503 if the image service cannot be reached."""
    del request
    ctx.authorize("kilonova:isolation:show")
    backend = ctx.backend
    images = [image for image in backend.images.list(token=ctx.credentials.token) if image.status == "active"]
    with ctx.read() as connection:
        private = flavors.all_projects(connection)
        offered = [
            OfferedFlavor(flavor, None if flavor.is_public else private.get(flavor.flavor_id, frozenset()))
            for flavor in flavors.list_visible(connection)
            if not flavor.disabled
        ]
        servers = tuple(request_specs.placed(connection))
    report = audit(
        backend.mirror.snapshot(), offered, images, servers, backend.settings.scheduler, check=deadline.check
    )
    return Reply(200, {"isolation": _view(report)})


def _view(report: Report) -> dict[str, Any]:
    return {
        "clean": report.is_clean,
        "pools": [
            {
                "rule": pool.rule,
                "aggregates": list(pool.aggregates),
                "hosts": list(pool.hosts),
                "may_enter": _groups(pool.may_enter),
            }
            for pool in report.pools
        ],
        "open_hosts": list(report.open_hosts),
        "findings": [_finding(finding) for finding in report.findings],
        "examined": {
            "projects": list(report.projects),
            "flavors": report.flavors,
            "images": report.images,
            "servers": report.servers,
            "combinations": report.combinations,
        },
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "what": finding.what,
        "remedy": finding.remedy,
        "rules": list(finding.rules),
        "aggregates": list(finding.aggregates),
        "hosts": list(finding.hosts),
        "servers": [_server(server) for server in finding.servers],
        "who": _groups(finding.who),
    }


def _server(server: PlacedServer) -> dict[str, Any]:
    return {
        "id": server.uuid,
        "name": server.name,
        "host": server.host,
        "project_id": server.project_id,
        "flavor": server.flavor.name,
        "image": None if server.image is None else server.image.name or server.image.id,
    }


def _groups(groups: Sequence[Group]) -> list[dict[str, Any]]:
    return [
        {"flavors": list(group.flavors), "images": list(group.images), "projects": list(group.projects)}
        for group in groups
    ]


ROUTES: Routes = {"/v1/isolation": {"GET": Endpoint(show_isolation, query=NO_QUERY)}}
