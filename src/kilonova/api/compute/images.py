# SPDX-License-Identifier: Apache-2.0
"""Image routes up to 2.35, and image metadata routes up to 2.38. They call Glance with the caller's own token.

There are no policy rules for them, since Glance decides which images the caller may see or change.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from kilonova.api.compute.links import bookmark_links, next_link
from kilonova.api.compute.quota_limits import limits_of_project
from kilonova.api.compute.schemas import images as schemas
from kilonova.api.compute.schemas import server_metadata as metadata_schemas
from kilonova.api.compute.times import whole_seconds
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.microversion import Version
from kilonova.api.schemas import queries
from kilonova.api.schemas.types import as_bool
from kilonova.api.validation import invalid_field
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest, NotFound, OverQuota
from kilonova.images.proxied import ImageFilter, ProxiedImage
from kilonova.model.image_vocabulary import is_standard

RULES = ()
_ALL, _ONE = "/images", "/images/{image_id}"
_METADATA, _ITEM = f"{_ONE}/metadata", f"{_ONE}/metadata/{{key}}"
_LAST, _LAST_WITH_METADATA = Version(2, 35), Version(2, 38)
_STATUSES: Mapping[str, str] = {
    "active": "ACTIVE",
    "queued": "SAVING",
    "saving": "SAVING",
    "deleted": "DELETED",
    "pending_delete": "DELETED",
    "killed": "ERROR",
}
_PROGRESS: Mapping[str, int] = {"queued": 25, "saving": 50, "active": 100}
_OF_PROPERTY = "property-"
Metadata = Mapping[str, str]


def list_images(ctx: Context, request: Request) -> Reply:
    """GET /images.  Until: 2.35.  Errors: 400."""
    return _list(ctx, request, _summary_view)


def list_images_detail(ctx: Context, request: Request) -> Reply:
    """GET /images/detail.  Until: 2.35.  Errors: 400."""
    return _list(ctx, request, _view)


def show_image(ctx: Context, request: Request) -> Reply:
    """GET /images/{image_id}.  Until: 2.35.  Errors: 404."""
    return Reply(200, {"image": _view(ctx, request, _image(ctx, request))})


def delete_image(ctx: Context, request: Request) -> Reply:
    """DELETE /images/{image_id}.  Until: 2.35.  Errors: 403, 404, 409 while the image is in use."""
    ctx.authorize_anyone()
    ctx.backend.image_proxy.remove(request.path["image_id"], token=ctx.credentials.token)
    return Reply(204)


def list_metadata(ctx: Context, request: Request) -> Reply:
    """GET /images/{image_id}/metadata.  Until: 2.38.  Errors: 404."""
    return Reply(200, {"metadata": dict(_image(ctx, request).properties)})


def merge_metadata(ctx: Context, request: Request) -> Reply:
    """POST /images/{image_id}/metadata.  Until: 2.38.  Keeps other keys.  Errors: 400, 403 (also over quota), 404."""
    return Reply(200, {"metadata": _change(ctx, request, "metadata", lambda present, new: {**present, **new})})


def replace_metadata(ctx: Context, request: Request) -> Reply:
    """PUT /images/{image_id}/metadata.  Until: 2.38.  Errors: 400, 403 (also over quota), 404."""
    return Reply(200, {"metadata": _change(ctx, request, "metadata", lambda _, new: new)})


def show_item(ctx: Context, request: Request) -> Reply:
    """GET /images/{image_id}/metadata/{key}.  Until: 2.38.  Errors: 404."""
    properties, key = _image(ctx, request).properties, request.path["key"]
    if key not in properties:
        raise _no_item()
    return Reply(200, {"meta": {key: properties[key]}})


def set_item(ctx: Context, request: Request) -> Reply:
    """PUT /images/{image_id}/metadata/{key}.  Until: 2.38.  Errors: 400, 403 (also over quota), 404."""
    if request.path["key"] not in request.body["meta"]:
        raise InvalidRequest("Request body and URI mismatch: the body has another key than the path.", field="meta")
    _change(ctx, request, "meta", lambda present, new: {**present, **new})
    return Reply(200, {"meta": request.body["meta"]})


def delete_item(ctx: Context, request: Request) -> Reply:
    """DELETE /images/{image_id}/metadata/{key}.  Until: 2.38.  Errors: 403, 404."""
    image, key = _image(ctx, request), request.path["key"]
    if key not in image.properties:
        raise _no_item()
    left = {name: value for name, value in image.properties.items() if name != key}
    ctx.backend.image_proxy.set_properties(image, left, token=ctx.credentials.token)
    return Reply(204)


def _list(ctx: Context, request: Request, view: Callable[[Context, Request, ProxiedImage], Any]) -> Reply:
    ctx.authorize_anyone()
    maximum = ctx.backend.settings.api.max_limit
    asked = integer_param(request, "limit")
    limit = maximum if asked is None else min(asked, maximum)
    if limit == 0:
        return Reply(200, {"images": []})
    found = ctx.backend.image_proxy.page(
        _filter(request), limit=limit, marker=request.param("marker"), token=ctx.credentials.token
    )
    links = {"images_links": [next_link(request, found[-1].id)]} if len(found) == limit else {}
    return Reply(200, {"images": [view(ctx, request, image) for image in heeding(found)], **links})


def _filter(request: Request) -> ImageFilter:
    properties = {
        name.removeprefix(_OF_PROPERTY): values[-1]
        for name, values in request.query.items()
        if name.startswith(_OF_PROPERTY) and values
    }
    server, image_type, status = request.param("server"), request.param("type"), request.param("status")
    if server is not None:
        properties["instance_uuid"] = server.rpartition("/")[2]
    if image_type is not None:
        properties["image_type"] = image_type
    return ImageFilter(
        request.param("name"),
        None if status is None else status.lower(),
        request.param("minRam"),
        request.param("minDisk"),
        request.param("changes-since"),
        properties,
    )


def _image(ctx: Context, request: Request) -> ProxiedImage:
    ctx.authorize_anyone()
    return ctx.backend.image_proxy.get(request.path["image_id"], token=ctx.credentials.token)


def _change(ctx: Context, request: Request, field: str, edit: Callable[[Metadata, Metadata], Metadata]) -> Metadata:
    """Replace an image's properties by ``edit(present properties, new properties)``, and return the result.

    ``field``: the field of the body with the new properties. Raises: InvalidRequest, OverQuota.
    """
    image, new = _image(ctx, request), request.body[field]
    for name in new:
        if is_standard(name):
            raise invalid_field(f"{field}.{name}", "The name is reserved: images have a field of this name.")
    wanted = edit(image.properties, new)
    limits = limits_of_project(ctx, ctx.project_id)
    with ctx.read() as connection:
        most = limits(connection)["metadata_items"]
    if 0 <= most < len(wanted):
        raise OverQuota(f"Maximum number of metadata items exceeds {most}")
    ctx.backend.image_proxy.set_properties(image, wanted, token=ctx.credentials.token)
    return wanted


def _no_item() -> NotFound:
    return NotFound("Metadata item was not found.")


def _summary_view(ctx: Context, request: Request, image: ProxiedImage) -> dict[str, Any]:
    service = ctx.backend.settings.glance.endpoint_override or request.root_url
    path = f"images/{image.id}"
    own = {"rel": "alternate", "type": "application/vnd.openstack.image", "href": f"{service.rstrip('/')}/{path}"}
    return {"id": image.id, "name": image.name, "links": [*bookmark_links(request, path), own]}


def _view(ctx: Context, request: Request, image: ProxiedImage) -> dict[str, Any]:
    view = {
        **_summary_view(ctx, request, image),
        "minRam": image.min_memory_mib,
        "minDisk": image.min_disk_gib,
        "metadata": dict(image.properties),
        "created": _time(image.created_at),
        "updated": _time(image.updated_at),
        "status": _STATUSES.get(image.status, "UNKNOWN"),
        "progress": _PROGRESS.get(image.status, 0),
        "OS-EXT-IMG-SIZE:size": image.size_bytes,
    }
    server = image.properties.get("instance_uuid")
    if server is not None:
        view["server"] = {"id": server, "links": bookmark_links(request, f"servers/{server}")}
    disk_config = image.properties.get("auto_disk_config")
    if disk_config is not None:
        view["OS-DCF:diskConfig"] = "AUTO" if as_bool(disk_config) else "MANUAL"
    return view


def _time(text: str | None) -> str | None:
    return None if text is None else whole_seconds(datetime.fromisoformat(text).replace(tzinfo=None))


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(list_images, query=schemas.LIST, until=_LAST)},
    f"{_ALL}/detail": {"GET": Endpoint(list_images_detail, query=schemas.LIST, until=_LAST)},
    _ONE: {
        "GET": Endpoint(show_image, query=queries.NONE, until=_LAST),
        "DELETE": Endpoint(delete_image, until=_LAST),
    },
    _METADATA: {
        "GET": Endpoint(list_metadata, query=queries.NONE, until=_LAST_WITH_METADATA),
        "POST": Endpoint(merge_metadata, body=metadata_schemas.MERGE, until=_LAST_WITH_METADATA),
        "PUT": Endpoint(replace_metadata, body=metadata_schemas.REPLACE, until=_LAST_WITH_METADATA),
    },
    _ITEM: {
        "GET": Endpoint(show_item, query=queries.NONE, until=_LAST_WITH_METADATA),
        "PUT": Endpoint(set_item, body=metadata_schemas.SET_ONE, until=_LAST_WITH_METADATA),
        "DELETE": Endpoint(delete_item, until=_LAST_WITH_METADATA),
    },
}
