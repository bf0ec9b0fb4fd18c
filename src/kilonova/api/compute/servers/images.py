# SPDX-License-Identifier: Apache-2.0
"""Actions that create an image of a server: createImage and createBackup.  Source: spec COMPUTE_API §1.4."""

from collections.abc import Mapping
from dataclasses import replace

from kilonova.api.compute.quota_limits import limits_of_project
from kilonova.api.compute.schemas import server_images as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.api.schemas.types import MAX_INTEGER
from kilonova.api.validation import invalid_field
from kilonova.db import request_specs
from kilonova.errors import Conflict, InvalidRequest, OverQuota, UnexpectedTaskState
from kilonova.identifiers import new_uuid
from kilonova.images.of_server import BACKUP, SNAPSHOT, image_of_server
from kilonova.model.image_vocabulary import is_standard
from kilonova.model.instance import Instance
from kilonova.model.new_image import NewImage

_CREATE_IMAGE, _CREATE_BACKUP = "os_compute_api:servers:create_image", "os_compute_api:os-create-backup"
RULES = (
    rule(_CREATE_IMAGE, PROJECT_MEMBER_OR_ADMIN, "Create an image of a server", action("createImage")),
    rule(_CREATE_BACKUP, PROJECT_MEMBER_OR_ADMIN, "Create a backup of a server", action("createBackup")),
)
_NO_METADATA_QUOTA = Version(2, 39)
_ID_IN_BODY = Version(2, 45)


def create_image(ctx: Context, request: Request) -> Reply:
    """Create an image of a server.  Errors: 400, 403, 404, 409.

    At the time of the reply the image exists in Glance, and its data is uploaded later. 2.39 removes the quota for
    metadata. Since 2.45 the reply's body contains the image id.
    """
    instance = find_server(ctx, request.path["server_id"], _CREATE_IMAGE)
    check_allowed(ctx, instance, "create-image")
    asked = request.body["createImage"]
    given = _metadata(ctx, request, "createImage", asked.get("metadata") or {})
    image = new_image_of(ctx, instance, asked["name"], given, SNAPSHOT)
    try:
        ctx.backend.conductor.operations.snapshots.create_image(
            instance.uuid, image.id, ctx.requester, lambda: register(ctx, image)
        )
    except UnexpectedTaskState as error:
        raise Conflict(error.message) from None
    return _made(ctx, request, image)


def create_backup(ctx: Context, request: Request) -> Reply:
    """Create a backup image, and delete the oldest backups of its backup_type, so that ``rotation`` of them remain.

    Microversions and errors are those of createImage.
    """
    instance = find_server(ctx, request.path["server_id"], _CREATE_BACKUP)
    check_allowed(ctx, instance, "create-backup")
    asked = request.body["createBackup"]
    given = _metadata(ctx, request, "createBackup", asked.get("metadata") or {})
    rotation = _kept(asked["rotation"])
    image = new_image_of(ctx, instance, asked["name"], {**given, "backup_type": asked["backup_type"]}, BACKUP)
    try:
        ctx.backend.conductor.operations.snapshots.create_backup(
            instance.uuid, image.id, rotation, ctx.requester, lambda: register(ctx, image)
        )
    except UnexpectedTaskState as error:
        raise Conflict(error.message) from None
    return _made(ctx, request, image) if rotation else Reply(202)


def _kept(rotation: float | str) -> int:
    """Return the number of backups to keep. A number too large for the database is replaced by the largest possible."""
    if isinstance(rotation, str):
        rotation = int(rotation.lstrip("0")[: len(str(MAX_INTEGER)) + 1] or 0)
    return int(min(rotation, MAX_INTEGER))


def new_image_of(
    ctx: Context, instance: Instance, name: str, given: Mapping[str, str], image_type: str = SNAPSHOT
) -> NewImage:
    """Return the new image of a server, with a new id. ``given``: image properties from the request."""
    with ctx.read() as connection:
        stored = request_specs.get_many(connection, [instance]).get(instance.uuid)
    base = None if stored is None else stored.spec.image
    settings = ctx.backend.settings
    not_inherited = settings.compute.non_inheritable_image_properties
    made = image_of_server(new_uuid(), name, instance, base, ctx.user_id, not_inherited, given, image_type)
    wanted: str = settings.libvirt.snapshot_image_format
    return replace(made, disk_format=wanted) if wanted else made


def register(ctx: Context, image: NewImage) -> None:
    """Create the image record in Glance with the caller's token. Raises: InvalidRequest if Glance is not configured."""
    if not ctx.backend.conductor.makes_images:
        raise InvalidRequest("No image service is configured, so images cannot be created.")
    ctx.backend.images.create(image, token=ctx.credentials.token)


def _metadata(ctx: Context, request: Request, action: str, given: Mapping[str, str]) -> Mapping[str, str]:
    for name in given:
        if is_standard(name):
            raise invalid_field(f"{action}.metadata.{name}", "The name is reserved: images have a field of this name.")
    if request.version < _NO_METADATA_QUOTA:
        limits = limits_of_project(ctx, ctx.project_id)
        with ctx.read() as connection:
            most = limits(connection)["metadata_items"]
        if 0 <= most < len(given):
            raise OverQuota(f"Maximum number of metadata items exceeds {most}")
    return given


def _made(ctx: Context, request: Request, image: NewImage) -> Reply:
    if request.version >= _ID_IN_BODY:
        return Reply(202, {"image_id": image.id})
    service = next(iter(ctx.backend.settings.glance.endpoints), request.root_url)
    return Reply(202, headers={"Location": f"{service}/images/{image.id}"})


ACTIONS: Mapping[str, Endpoint] = {
    "createImage": Endpoint(create_image, body=schemas.CREATE_IMAGE),
    "createBackup": Endpoint(create_backup, body=schemas.CREATE_BACKUP),
}
