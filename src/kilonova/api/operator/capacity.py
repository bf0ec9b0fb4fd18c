# SPDX-License-Identifier: Apache-2.0
"""POST /operator/v1/capacity: how many more servers of each flavor fit, and what refuses the next one."""

from collections.abc import Sequence
from dataclasses import replace

from kilonova import deadline
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, changes_nothing
from kilonova.api.operator.bodies.capacity import AskedCapacity
from kilonova.api.operator.bodies.explain import ExplainedFlavor
from kilonova.api.operator.capacity_answer import CountedCloud, Question
from kilonova.api.operator.described_requests import PresentHosts, flavor_of, in_group, request_of
from kilonova.api.operator.schemas import capacity as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.db import flavors as stored_flavors
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import ServerGroup
from kilonova.records import dataclass
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.engine.group_policies import require_support

RULES = (
    rule(
        "kilonova:capacity",
        ADMIN,
        "Count how many more servers fit",
        ("POST", "/operator/v1/capacity"),
    ),
)
_ANY_FLAVOR = Flavor("", "", 1, 1, 0)


@dataclass(frozen=True, slots=True)
class AskedServers:
    """Requests for one server of each flavor, still without the members of their server group, and what to count."""

    requests: Sequence[RequestSpec]
    group: ServerGroup | None
    question: Question


def count_servers(ctx: Context, request: Request) -> Reply:
    """POST /v1/capacity.  Errors: 400 naming the field, also for an unknown flavor, image, group, zone or host."""
    ctx.authorize("kilonova:capacity")
    aliases = read_aliases(ctx.backend.settings.scheduler.pci_alias)
    asked = asked_servers(ctx, read_typed(AskedCapacity, request.body), schemas.MOST_FLAVORS)
    present = PresentHosts.of(ctx, asked.group)
    cloud = CountedCloud(present.hosts, present.seq, ctx.backend.engine, aliases)
    requests = in_group(asked.requests, present.group)
    return Reply(200, asked.question.answer(cloud, requests, lambda _done, _text: deadline.check()))


def asked_servers(ctx: Context, asked: AskedCapacity, most: int) -> AskedServers:
    """Return the requests that a body describes, with at most ``most`` flavors. Errors: 400 naming the field."""
    spec, group = request_of(ctx, asked, _ANY_FLAVOR)
    if group is not None:
        require_support(ctx.backend.engine, group.policy)
    shares = None
    if asked.mix is None:
        flavors = _flavors(ctx, asked.flavors, most)
    elif asked.flavors is not None:
        raise invalid_field("mix", "Give either flavors or a mix.")
    else:
        flavors = _named(ctx, [part.flavor for part in asked.mix], "mix")
        shares = [int(part.share) for part in asked.mix]
    default_zone = ctx.backend.settings.compute.default_availability_zone
    question = Question(shares=shares, by=asked.by, stranded=asked.stranded, default_zone=default_zone)
    return AskedServers([replace(spec, flavor=each) for each in flavors], group, question)


def _flavors(ctx: Context, asked: Sequence[ExplainedFlavor | str] | None, most: int) -> tuple[Flavor, ...]:
    """Return the flavors to count, each with a name of its own; all enabled flavors if none are given."""
    if asked is None:
        with ctx.read() as connection:
            every = tuple(each for each in stored_flavors.list_visible(connection) if not each.disabled)
        if len(every) > most:
            raise invalid_field("flavors", f"Name at most {most} of the {len(every)} flavors.")
        return every
    return _named(ctx, asked, "flavors")


def _named(ctx: Context, asked: Sequence[ExplainedFlavor | str], field: str) -> tuple[Flavor, ...]:
    """Return the asked flavors, each with a name of its own. ``field``: name of the field in errors."""
    found: dict[str, Flavor] = {}
    for number, each in enumerate(asked):
        flavor = flavor_of(ctx, each, field=f"{field}[{number}]")
        if flavor.name in found:
            raise invalid_field(f"{field}[{number}]", f"The flavor {flavor.name} is named twice.")
        found[flavor.name] = flavor
    return tuple(found.values())


ROUTES: Routes = {
    "/v1/capacity": {"POST": Endpoint(count_servers, body=schemas.CAPACITY, query=NO_QUERY, reads=changes_nothing)}
}
