# SPDX-License-Identifier: Apache-2.0
"""POST /operator/v1/explain: dry run of the scheduler for a server request that the body describes."""

from typing import Any

from kilonova.api.compute.possible_guests import require_possible_guest
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, changes_nothing
from kilonova.api.operator.bodies.explain import Explain
from kilonova.api.operator.described_requests import PresentHosts, flavor_of, in_group, request_of
from kilonova.api.operator.paging import host_filters
from kilonova.api.operator.schemas import explain as schemas
from kilonova.api.operator.schemas.parameters import EXPLAIN_QUERY
from kilonova.api.operator.unread import unread_of_request
from kilonova.api.operator.views import decision_view, hosts_page, nearest_view, rules_view
from kilonova.api.policy import ADMIN, rule
from kilonova.api.typed_body import read_typed
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.explanations.what_if import what_if

RULES = (
    rule(
        "kilonova:explain",
        ADMIN,
        "Explain how the scheduler would place servers",
        ("POST", "/operator/v1/explain"),
    ),
)


def explain_request(ctx: Context, request: Request) -> Reply:
    """POST /v1/explain.  Errors: 400 naming the field, also for an unknown flavor, image, group, zone or host."""
    ctx.authorize("kilonova:explain")
    filters = host_filters(ctx, request)
    aliases = read_aliases(ctx.backend.settings.scheduler.pci_alias)
    asked = read_typed(Explain, request.body)
    spec, group = request_of(ctx, asked, flavor_of(ctx, asked.flavor))
    require_possible_guest(spec.flavor, spec.image, aliases, flavor_field="flavor", image_field="image")
    present = PresentHosts.of(ctx, group)
    hosts = present.hosts
    (spec,) = in_group([spec], present.group)
    found = what_if(hosts, spec, ctx.backend.engine, count=int(asked.count), aliases=aliases)
    body: dict[str, Any] = {
        "fits": found.fits,
        "seq": present.seq,
        "servers": [decision_view(*each) for each in zip(found.decisions, found.chosen, strict=True)],
        "explained_server": found.explained + 1,
        "rules": rules_view(found.explanation),
        **hosts_page(hosts, found.explanation, **filters),
        "nearest_miss": nearest_view(found.nearest),
        **unread_of_request(ctx, hosts, spec, (each.host for each in found.chosen if each is not None)),
    }
    return Reply(200, body)


ROUTES: Routes = {
    "/v1/explain": {"POST": Endpoint(explain_request, body=schemas.EXPLAIN, query=EXPLAIN_QUERY, reads=changes_nothing)}
}
