# SPDX-License-Identifier: Apache-2.0
"""POST /operator/v1/capacity: how many more servers of each flavor fit, and what refuses the next one."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kilonova import deadline
from kilonova.api.compute.possible_guests import require_possible_guest
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, changes_nothing
from kilonova.api.operator.bodies.capacity import AskedCapacity
from kilonova.api.operator.bodies.explain import ExplainedFlavor
from kilonova.api.operator.described_requests import flavor_of, request_of
from kilonova.api.operator.schemas import capacity as schemas
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.db import flavors as stored_flavors
from kilonova.deadline import Deadline, nobody_left
from kilonova.errors import InvalidRequest
from kilonova.model.flavor import Flavor
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView, ServerGroup
from kilonova.planning.capacity import Capacity, Hindrance, capacity
from kilonova.records import dataclass
from kilonova.scheduler.devices.pci_request import Alias, read_aliases
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.engine.group_policies import require_support
from kilonova.scheduler.host_table import HostTable

RULES = (
    rule(
        "kilonova:capacity",
        ADMIN,
        "Count how many more servers fit",
        ("POST", "/operator/v1/capacity"),
    ),
)
_MOST_SECONDS = 60.0
_ANY_FLAVOR = Flavor("", "", 1, 1, 0)
#: Rule in the reasons for a flavor that the API refuses together with the requested image.
_REQUEST = "request"


@dataclass(frozen=True, slots=True)
class AskedServers:
    """Requests for one server of each flavor, still without the members of their server group."""

    requests: Sequence[RequestSpec]
    group: ServerGroup | None

    def in_group(self, view: GroupView | None) -> tuple[RequestSpec, ...]:
        """Return the requests with the present members of their group."""
        return tuple(self.requests) if view is None else tuple(replace(each, group=view) for each in self.requests)


def count_servers(ctx: Context, request: Request) -> Reply:
    """POST /v1/capacity.  Errors: 400 naming the field, also for an unknown flavor, image, group, zone or host."""
    ctx.authorize("kilonova:capacity")
    aliases = read_aliases(ctx.backend.settings.scheduler.pci_alias)
    asked = asked_servers(ctx, read_typed(AskedCapacity, request.body), schemas.MOST_FLAVORS)
    mirror, engine = ctx.backend.mirror, ctx.backend.engine
    mirror.catch_up()
    with mirror.lock:
        hosts, seq = mirror.hosts_apart(), mirror.seq
        requests = asked.in_group(None if asked.group is None else mirror.group(asked.group.uuid))
    with deadline.running(Deadline(time.monotonic() + _seconds(ctx), nobody_left)):
        found = {each.flavor.name: of_flavor(engine, hosts, each, aliases) for each in requests}
    return Reply(200, capacity_answer(seq, found))


def asked_servers(ctx: Context, asked: AskedCapacity, most: int) -> AskedServers:
    """Return the requests that a body describes, with at most ``most`` flavors. Errors: 400 naming the field."""
    spec, group = request_of(ctx, asked, _ANY_FLAVOR)
    if group is not None:
        require_support(ctx.backend.engine, group.policy)
    return AskedServers([replace(spec, flavor=each) for each in _flavors(ctx, asked.flavors, most)], group)


def capacity_answer(seq: int, found: Mapping[str, Capacity]) -> dict[str, Any]:
    """Return the answer for the capacity of each flavor, by its name."""
    return {
        "seq": seq,
        "fits": {name: each.fits for name, each in found.items()},
        "next": [{"flavor": name, "reasons": _reasons(each)} for name, each in found.items()],
    }


def _seconds(ctx: Context) -> float:
    timeout_s = ctx.backend.settings.api.request_timeout_s
    return _MOST_SECONDS if timeout_s is None else min(timeout_s, _MOST_SECONDS)


def of_flavor(engine: Engine, hosts: HostTable, spec: RequestSpec, aliases: Mapping[str, Alias]) -> Capacity:
    """Return how many servers of a request fit; 0 if the API refuses its flavor together with its image."""
    deadline.check()
    try:
        require_possible_guest(spec.flavor, spec.image, aliases, flavor_field="flavors", image_field="image")
    except InvalidRequest as error:
        return Capacity(0, (Hindrance(_REQUEST, error.message, 0),))
    return capacity(hosts, spec, engine, aliases=aliases, check=deadline.check)


def _reasons(found: Capacity) -> list[dict[str, Any]]:
    return [{"rule": each.rule, "reason": each.reason, "hosts": each.hosts} for each in found.reasons]


def _flavors(ctx: Context, asked: Sequence[ExplainedFlavor | str] | None, most: int) -> tuple[Flavor, ...]:
    """Return the flavors to count, each with a name of its own; all enabled flavors if none are given."""
    if asked is None:
        with ctx.read() as connection:
            every = tuple(each for each in stored_flavors.list_visible(connection) if not each.disabled)
        if len(every) > most:
            raise invalid_field("flavors", f"Name at most {most} of the {len(every)} flavors.")
        return every
    found: dict[str, Flavor] = {}
    for number, each in enumerate(asked):
        flavor = flavor_of(ctx, each, field=f"flavors[{number}]")
        if flavor.name in found:
            raise invalid_field(f"flavors[{number}]", f"The flavor {flavor.name} is named twice.")
        found[flavor.name] = flavor
    return tuple(found.values())


ROUTES: Routes = {
    "/v1/capacity": {"POST": Endpoint(count_servers, body=schemas.CAPACITY, query=NO_QUERY, reads=changes_nothing)}
}
