# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/rules: keys of flavors, images and aggregates that no scheduler rule reads.

The views of explanations and decisions contain the unread keys of a single request.
"""

from collections.abc import Iterable
from typing import Any

from kilonova.api.compute.schemas.flavor_extra_specs import is_read_by_hypervisors
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.db import flavors
from kilonova.model.aggregate import Aggregate
from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.explanations.unread import Readers, Unread, readers_of, unread, with_names_in_use
from kilonova.scheduler.filters.aggregate_instance_extra_specs import SCOPE
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.reads import Keys, Reads
from kilonova.scheduler.rule import rule_name

RULES = (rule("kilonova:rules:show", ADMIN, "List keys that no scheduler rule reads", ("GET", "/operator/v1/rules")),)
_HYPERVISORS = Reads(extra_specs=Keys(matching=(is_read_by_hypervisors,)))


def show_unread(ctx: Context, request: Request) -> Reply:
    """GET /v1/rules.  Errors: 503 if the image service cannot be reached."""
    del request
    ctx.authorize("kilonova:rules:show")
    backend = ctx.backend
    images = backend.images.list(token=ctx.credentials.token)
    with ctx.read() as connection:
        offered = flavors.list_visible(connection)
    hosts = backend.mirror.snapshot()
    aggregates = hosts.aggregates.aggregates
    readers = with_names_in_use(_readers(ctx, hosts), hosts, offered, images, complete=True)
    found = unread(readers, flavors=offered, images=images, aggregates=aggregates)
    view = {
        "clean": not found,
        **unread_view(readers, found),
        "enabled": [rule_name(each) for each in (*backend.engine.filters, *backend.engine.weighers)],
        "examined": {"flavors": len(offered), "images": len(images), "aggregates": len(aggregates)},
    }
    return Reply(200, {"rules": view})


def unread_of_request(ctx: Context, hosts: HostTable, spec: RequestSpec, chosen: Iterable[str]) -> dict[str, Any]:
    """Return the view of the keys of a request and of related aggregates that no scheduler rule reads.

    ``chosen``: the compute hosts that were chosen for the request.
    """
    images = () if spec.image is None else (spec.image,)
    readers = with_names_in_use(_readers(ctx, hosts), hosts, (spec.flavor,), images, complete=False)
    aggregates = _concerned(hosts, spec, frozenset(chosen))
    found = unread(readers, flavors=(spec.flavor,), images=images, aggregates=aggregates, hints=spec.hints)
    return unread_view(readers, found)


def unread_view(readers: Readers, found: Iterable[Unread]) -> dict[str, Any]:
    """Return the view of ``found``, the keys that no rule reads, with the names of rules that may read any key."""
    return {
        "unread": [
            {
                "of": each.kind.name.lower(),
                "id": each.id,
                "name": each.name,
                "key": each.key,
                "value": each.value,
                "would_be_read_by": list(each.rules),
                "text": str(each),
            }
            for each in found
        ],
        "may_read_anything": list(readers.may_read_anything),
    }


def _readers(ctx: Context, hosts: HostTable) -> Readers:
    backend = ctx.backend
    return readers_of(
        backend.engine, backend.settings.scheduler, hosts, driver=backend.driver_name, others=(_HYPERVISORS,)
    )


def _concerned(hosts: HostTable, spec: RequestSpec, chosen: frozenset[str]) -> list[Aggregate]:
    """Return the aggregates that are related to a request.

    A related aggregate contains a chosen host, or has a metadata key that is also a key of the flavor or the image.
    """
    asked = {key.removeprefix(f"{SCOPE}:") for key in spec.flavor.extra_specs}
    asked |= set(spec.image.properties) if spec.image is not None else set()
    return [
        each
        for each in hosts.aggregates.aggregates
        if not asked.isdisjoint(each.metadata) or not chosen.isdisjoint(each.hosts)
    ]


ROUTES: Routes = {"/v1/rules": {"GET": Endpoint(show_unread, query=NO_QUERY)}}
