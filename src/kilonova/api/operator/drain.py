# SPDX-License-Identifier: Apache-2.0
"""POST /operator/v1/drain: the moves that empty hosts, in waves, and the servers that must stay. Nothing is moved."""

from kilonova import deadline
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, changes_nothing
from kilonova.api.operator.bodies.plans import AskedDrain
from kilonova.api.operator.known_names import aggregate_of, compute_services
from kilonova.api.operator.plan_views import plan_view
from kilonova.api.operator.schemas import plans as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.claims.cloud_snapshot import CloudSnapshot, cloud_snapshot
from kilonova.claims.present_drain import drained
from kilonova.planning.drain import DrainRequest
from kilonova.planning.near_misses import near_misses
from kilonova.planning.plan import Plan
from kilonova.records import dataclass
from kilonova.scheduler.devices.pci_request import read_aliases

RULES = (rule("kilonova:drain", ADMIN, "Plan the moves that empty hosts", ("POST", "/operator/v1/drain")),)


def plan_drain(ctx: Context, request: Request) -> Reply:
    """POST /v1/drain.  Errors: 400 naming the field, also for an unknown host or aggregate."""
    ctx.authorize("kilonova:drain")
    found = planned_drain(ctx, read_typed(AskedDrain, request.body))
    misses = near_misses(found.taken.cloud, found.plan)
    return Reply(200, {"seq": found.taken.seq, **plan_view(found.taken.cloud, found.plan, misses)})


@dataclass(frozen=True, slots=True)
class PlannedDrain:
    """A drain on the present cloud, with the request for which it was planned."""

    asked: DrainRequest
    taken: CloudSnapshot
    plan: Plan


def planned_drain(ctx: Context, body: AskedDrain) -> PlannedDrain:
    """Plan a drain on the present cloud. Raises: InvalidRequest naming the field."""
    asked = DrainRequest(_hosts(ctx, body), body.how, body.limits.limits, body.locked)
    backend = ctx.backend
    aliases = read_aliases(backend.settings.scheduler.pci_alias)

    def snapshot(on_hosts: frozenset[str] | None) -> CloudSnapshot:
        return cloud_snapshot(ctx, backend.mirror, backend.engine, on_hosts=on_hosts, aliases=aliases)

    taken, plan = drained(snapshot, asked, deadline.check)
    return PlannedDrain(asked, taken, plan)


def _hosts(ctx: Context, body: AskedDrain) -> frozenset[str]:
    """Return the service hosts to drain. Raises: InvalidRequest."""
    with ctx.read() as connection:
        found = {service.host for service in compute_services(connection, body.hosts)}
        if body.aggregate is not None:
            found.update(aggregate_of(connection, body.aggregate).hosts)
    if not found:
        raise invalid_field("hosts", "Name at least one host, or an aggregate with hosts.")
    return frozenset(found)


ROUTES: Routes = {
    "/v1/drain": {"POST": Endpoint(plan_drain, body=schemas.DRAIN, query=NO_QUERY, reads=changes_nothing)}
}
