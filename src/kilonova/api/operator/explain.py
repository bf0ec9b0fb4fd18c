# SPDX-License-Identifier: Apache-2.0
"""POST /operator/v1/explain: dry run of the scheduler for a server request that the body describes."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kilonova.api.compute.hints import read_hints
from kilonova.api.compute.possible_guests import require_possible_guest
from kilonova.api.compute.target import check_place, split_zone
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, changes_nothing
from kilonova.api.operator.bodies.explain import Explain, ExplainedFlavor, ExplainedImage
from kilonova.api.operator.paging import host_filters
from kilonova.api.operator.schemas import explain as schemas
from kilonova.api.operator.schemas.parameters import EXPLAIN_QUERY
from kilonova.api.operator.unread import unread_of_request
from kilonova.api.operator.views import decision_view, hosts_page, nearest_view, rules_view
from kilonova.api.policy import ADMIN, rule
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.db import flavors, server_groups
from kilonova.errors import NotFound
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import ServerGroup
from kilonova.scheduler.devices.pci_request import Alias, read_aliases
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
    spec, group = _asked(ctx, asked, aliases)
    mirror = ctx.backend.mirror
    mirror.catch_up()
    with mirror.lock:
        hosts, seq = mirror.hosts_apart(), mirror.seq
        if group is not None:
            spec = replace(spec, group=mirror.group(group.uuid))
    found = what_if(hosts, spec, ctx.backend.engine, count=int(asked.count), aliases=aliases)
    body: dict[str, Any] = {
        "fits": found.fits,
        "seq": seq,
        "servers": [decision_view(*each) for each in zip(found.decisions, found.chosen, strict=True)],
        "explained_server": found.explained + 1,
        "rules": rules_view(found.explanation),
        **hosts_page(hosts, found.explanation, **filters),
        "nearest_miss": nearest_view(found.nearest),
        **unread_of_request(ctx, hosts, spec, (each.host for each in found.chosen if each is not None)),
    }
    return Reply(200, body)


def _asked(ctx: Context, asked: Explain, aliases: Mapping[str, Alias]) -> tuple[RequestSpec, ServerGroup | None]:
    hints = read_hints(ctx, asked.hints, field="hints")
    group = _group(ctx, asked.group or next(iter(hints.get("group", ())), None))
    project_id = asked.project_id or (group.project_id if group is not None else ctx.project_id)
    if group is not None:
        if group.project_id != project_id:
            raise invalid_field("group", f"Instance group {group.uuid} does not belong to project {project_id}.")
        hints["group"] = (group.uuid,)
    zone, host, node = _place(ctx, asked.availability_zone)
    flavor, image = _flavor(ctx, asked.flavor), _image(ctx, asked.image, project_id)
    require_possible_guest(flavor, image, aliases, flavor_field="flavor", image_field="image")
    spec = RequestSpec(
        flavor=flavor,
        image=image,
        project_id=project_id,
        user_id=ctx.user_id,
        request_id=ctx.request_id,
        availability_zone=zone,
        hints=hints,
        force_host=host,
        force_node=node,
        remote_address=ctx.remote_address,
    )
    return spec, group


def _place(ctx: Context, text: str | None) -> tuple[str | None, str | None, str | None]:
    if not text:
        return ctx.backend.settings.compute.default_schedule_zone, None, None
    zone, host, node = split_zone(text)
    check_place(ctx, zone, host, node)
    return zone, host, node


def _flavor(ctx: Context, asked: ExplainedFlavor | str) -> Flavor:
    if isinstance(asked, ExplainedFlavor):
        return Flavor(
            flavor_id="",
            name=asked.name,
            vcpus=int(asked.vcpus),
            memory_mib=int(asked.ram),
            root_gib=int(asked.disk),
            ephemeral_gib=int(asked.ephemeral),
            swap_mib=int(asked.swap),
            extra_specs=asked.extra_specs,
        )
    with ctx.read() as connection:
        try:
            return flavors.get(connection, asked)
        except NotFound as error:
            for flavor in flavors.list_visible(connection):
                if flavor.name == asked:
                    return flavor
            raise invalid_field("flavor", error.message) from None


def _image(ctx: Context, asked: ExplainedImage | str | None, project_id: str) -> Image | None:
    if asked is None:
        return None
    if isinstance(asked, ExplainedImage):
        return Image(asked.id, asked.name, properties=asked.properties)
    images, token = ctx.backend.images, ctx.credentials.token
    try:
        return images.get(asked, token=token, project_id=project_id)
    except NotFound as error:
        named = images.named(asked, token=token, project_id=project_id)
        if len(named) > 1:
            known = ", ".join(image.id for image in named)
            raise invalid_field("image", f"{len(named)} images have the name {asked}: {known}. Give an id.") from None
        if not named:
            raise invalid_field("image", error.message) from None
        return named[0]


def _group(ctx: Context, uuid: str | None) -> ServerGroup | None:
    if uuid is None:
        return None
    try:
        with ctx.read() as connection:
            return server_groups.get(connection, uuid)
    except NotFound:
        raise invalid_field("group", f"Instance group {uuid} could not be found.") from None


ROUTES: Routes = {
    "/v1/explain": {"POST": Endpoint(explain_request, body=schemas.EXPLAIN, query=EXPLAIN_QUERY, reads=changes_nothing)}
}
