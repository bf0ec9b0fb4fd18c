# SPDX-License-Identifier: Apache-2.0
"""Server requests that bodies of the operator API describe, and the cloud they meet. Errors: 400 naming the field."""

from collections.abc import Sequence
from dataclasses import replace

from kilonova.api.compute.hints import read_hints
from kilonova.api.compute.target import check_place, split_zone
from kilonova.api.http import Context
from kilonova.api.operator.bodies.explain import DescribedRequest, ExplainedFlavor, ExplainedImage
from kilonova.api.validation import invalid_field
from kilonova.db import flavors, server_groups
from kilonova.errors import NotFound
from kilonova.model.flavor import Flavor
from kilonova.model.image import Image
from kilonova.model.request_spec import RequestSpec
from kilonova.model.server_group import GroupView, ServerGroup
from kilonova.records import dataclass
from kilonova.scheduler.host_table import HostTable


@dataclass(frozen=True, slots=True)
class PresentHosts:
    """The hosts after commit ``seq``, apart from the mirror, and a server group with its members at this moment."""

    hosts: HostTable
    seq: int
    group: GroupView | None

    @classmethod
    def of(cls, ctx: Context, group: ServerGroup | None) -> "PresentHosts":
        """Return the present hosts, and the members of ``group``. Raises: Unavailable, DeadlineExceeded."""
        mirror = ctx.backend.mirror
        mirror.catch_up()
        with mirror.lock:
            return cls(mirror.hosts_apart(), mirror.seq, None if group is None else mirror.group(group.uuid))


def in_group(requests: Sequence[RequestSpec], view: GroupView | None) -> tuple[RequestSpec, ...]:
    """Return the requests as requests of a server group; unchanged without one."""
    return tuple(requests) if view is None else tuple(replace(each, group=view) for each in requests)


def request_of(ctx: Context, asked: DescribedRequest, flavor: Flavor) -> tuple[RequestSpec, ServerGroup | None]:
    """Return the request for one server, still without its group, and the group."""
    hints = read_hints(ctx, asked.hints, field="hints")
    group = group_of(ctx, asked.group or next(iter(hints.get("group", ())), None))
    project_id = asked.project_id or (group.project_id if group is not None else ctx.project_id)
    if group is not None:
        if group.project_id != project_id:
            raise invalid_field("group", f"Instance group {group.uuid} does not belong to project {project_id}.")
        hints["group"] = (group.uuid,)
    zone, host, node = place_of(ctx, asked.availability_zone)
    spec = RequestSpec(
        flavor=flavor,
        image=image_of(ctx, asked.image, project_id),
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


def place_of(ctx: Context, text: str | None) -> tuple[str | None, str | None, str | None]:
    """Return (zone, host, node) of ``ZONE[:HOST[:NODE]]``; the default zone if there is no text."""
    if not text:
        return ctx.backend.settings.compute.default_schedule_zone, None, None
    zone, host, node = split_zone(text)
    check_place(ctx, zone, host, node)
    return zone, host, node


def flavor_of(ctx: Context, asked: ExplainedFlavor | str, *, field: str = "flavor") -> Flavor:
    """Return the flavor with this id or name, or with the given properties. ``field``: name of the field in errors."""
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
            raise invalid_field(field, error.message) from None


def image_of(ctx: Context, asked: ExplainedImage | str | None, project_id: str) -> Image | None:
    """Return the image with this id or name, or with the given properties; None for no image."""
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


def group_of(ctx: Context, uuid: str | None) -> ServerGroup | None:
    """Return the server group, or None if the request has none."""
    if uuid is None:
        return None
    try:
        with ctx.read() as connection:
            return server_groups.get(connection, uuid)
    except NotFound:
        raise invalid_field("group", f"Instance group {uuid} could not be found.") from None
