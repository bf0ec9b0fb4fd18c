# SPDX-License-Identifier: Apache-2.0
"""Actions that move a server: resize, cold and live migration, and confirmation and revert of a move.

Source: spec COMPUTE_API §1.4.
"""

from collections.abc import Callable, Mapping
from typing import Any

from kilonova.api.compute.bodies.moves import LiveMigration, Migration, Resize
from kilonova.api.compute.flavors import find_asked
from kilonova.api.compute.possible_guests import require_possible_guest
from kilonova.api.compute.schemas import server_moves as schemas
from kilonova.api.compute.servers.local_disks import require_ephemeral_room
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed, host_is_up
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_MANAGER_OR_ADMIN, PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.api.schemas.types import as_bool
from kilonova.api.typed_body import read_typed
from kilonova.api.validation import invalid_field
from kilonova.db import request_specs, services
from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance
from kilonova.model.local_disk import NO_LOCAL_DISKS
from kilonova.model.needed_abilities import NEEDED
from kilonova.model.requester import Requester
from kilonova.scheduler.devices.pci_request import read_aliases

_SERVERS, _MIGRATE = "os_compute_api:servers", "os_compute_api:os-migrate-server"
RULES = (
    rule(f"{_SERVERS}:resize", PROJECT_MEMBER_OR_ADMIN, "Resize a server", action("resize")),
    rule(f"{_SERVERS}:confirm_resize", PROJECT_MEMBER_OR_ADMIN, "Confirm a resize", action("confirmResize")),
    rule(f"{_SERVERS}:revert_resize", PROJECT_MEMBER_OR_ADMIN, "Revert a resize", action("revertResize")),
    rule(f"{_MIGRATE}:migrate", PROJECT_MANAGER_OR_ADMIN, "Migrate a server to any host", action("migrate")),
    rule(f"{_MIGRATE}:migrate:host", ADMIN, "Migrate a server to a host", action("migrate")),
    rule(
        f"{_MIGRATE}:migrate_live",
        PROJECT_MANAGER_OR_ADMIN,
        "Live-migrate a server to any host",
        action("os-migrateLive"),
    ),
    rule(f"{_MIGRATE}:migrate_live:host", ADMIN, "Live-migrate a server to a host", action("os-migrateLive")),
)
#: First microversion in which the scheduler's filters apply to a requested host; before 2.68 ``force`` bypasses them.
_FORCE_ON_REQUEST = Version(2, 30)
_NEVER_FORCED = Version(2, 68)


def resize(ctx: Context, request: Request) -> Reply:
    """Resize a server.  Errors: 400, 403 (also over quota), 404, 409 also if the server's host is down."""
    instance = find_server(ctx, request.path["server_id"], f"{_SERVERS}:resize")
    stays = ctx.backend.settings.compute.allow_resize_to_same_host
    check_allowed(ctx, instance, "resize", None if stays else NEEDED["migrate"])
    asked = read_typed(Resize, request.body["resize"])
    flavor = _new_flavor(ctx, instance, asked.flavor_ref)
    _require_source(ctx, instance)
    ctx.backend.conductor.operations.moves.resize(
        instance.uuid,
        flavor,
        ctx.requester,
        stays=stays,
        limits=ctx.backend.limits.of_project(instance.project_id),
        disk_config=asked.disk_config,
    )
    return Reply(202)


def confirm_resize(ctx: Context, request: Request) -> Reply:
    """Confirm a resize or a cold migration.  Errors: 400, 404, 409."""
    _end_move(ctx, request, "confirm_resize", ctx.backend.conductor.operations.moves.confirm_resize)
    return Reply(204)


def revert_resize(ctx: Context, request: Request) -> Reply:
    """Revert a resize or a cold migration.  Errors: 400, 404, 409."""
    _end_move(ctx, request, "revert_resize", ctx.backend.conductor.operations.moves.revert_resize)
    return Reply(202)


def _end_move(ctx: Context, request: Request, action: str, operation: Callable[[str, Requester], Any]) -> None:
    instance = find_server(ctx, request.path["server_id"], f"{_SERVERS}:{action}")
    check_allowed(ctx, instance, action.replace("_", "-"))
    try:
        operation(instance.uuid, ctx.requester)
    except NotFound as error:
        raise InvalidRequest(error.message) from None


def migrate(ctx: Context, request: Request) -> Reply:
    """Cold-migrate a server.  2.56 adds a requested host.  Errors: 400, 404, 409 also if the server's host is down."""
    given = request.body["migrate"] if request.version >= Version(2, 56) else None
    host = read_typed(Migration, given or {}).host
    instance = find_server(ctx, request.path["server_id"], _rule("migrate", host))
    check_allowed(ctx, instance, "migrate")
    destination = _destination(ctx, instance, host)
    _require_source(ctx, instance)
    ctx.backend.conductor.operations.moves.migrate(instance.uuid, ctx.requester, host=destination)
    return Reply(202)


def live_migrate(ctx: Context, request: Request) -> Reply:
    """Live-migrate a server.  Errors: 400, 404, 409.

    ``block_migration`` and ``disk_over_commit`` are validated and then ignored. Since 2.25 ``block_migration`` may be
    "auto". 2.30 to 2.67 accept ``force``.
    """
    asked = read_typed(LiveMigration, request.body["os-migrateLive"])
    host = asked.host
    instance = find_server(ctx, request.path["server_id"], _rule("migrate_live", host))
    check_allowed(ctx, instance, "live-migrate")
    forced = _forced(request.version, asked)
    destination = _destination(ctx, instance, host)
    if not host_is_up(ctx, instance.host):
        raise InvalidRequest("The compute service of the server's host is down; a live migration needs it.")
    ctx.backend.conductor.operations.live_migrations.begin(
        instance.uuid, ctx.requester, host=destination, forced=forced
    )
    return Reply(202)


def _forced(version: Version, asked: LiveMigration) -> bool:
    """Whether the requested host bypasses the scheduler's filters. Raises: InvalidRequest."""
    if version < _FORCE_ON_REQUEST:
        return asked.host is not None
    forced = version < _NEVER_FORCED and as_bool(asked.force)
    if forced and asked.host is None:
        raise invalid_field("force", "The field is allowed only together with host.")
    return forced


def _rule(action: str, host: str | None) -> str:
    return f"{_MIGRATE}:{action}" if host is None else f"{_MIGRATE}:{action}:host"


def _new_flavor(ctx: Context, instance: Instance, flavor_ref: float | str) -> Flavor:
    flavor, present = find_asked(ctx, flavor_ref), instance.flavor
    if flavor.flavor_id == present.flavor_id:
        raise invalid_field("flavorRef", "The server has this flavor already.")
    if flavor.root_gib < present.root_gib:
        raise invalid_field(
            "flavorRef",
            f"The root disk of {present.root_gib} GiB cannot be made smaller: flavor {flavor.flavor_id} has "
            f"{flavor.root_gib} GiB.",
        )
    with ctx.read() as connection:
        stored = request_specs.get_many(connection, [instance]).get(instance.uuid)
    image = stored.spec.image if stored is not None else None
    aliases = read_aliases(ctx.backend.settings.scheduler.pci_alias)
    require_possible_guest(flavor, image, aliases, flavor_field="flavorRef", image_field="flavorRef")
    require_ephemeral_room("flavorRef", NO_LOCAL_DISKS if stored is None else stored.disks, flavor)
    return flavor


def _destination(ctx: Context, instance: Instance, host: str | None) -> str | None:
    """Return the name of the requested host as it is stored, which may differ from the request in upper and lower case.

    Raises: InvalidRequest if the host is unknown, or if the server is on this host.
    """
    if host is None:
        return None
    with ctx.read() as connection:
        service = services.find_by_host(connection, host)
    if service is None:
        raise invalid_field("host", f"Compute host {host} could not be found.")
    if service.host == instance.host:
        raise invalid_field("host", f"The server is on host {host} already.")
    return service.host


def _require_source(ctx: Context, instance: Instance) -> None:
    """Raise Conflict if the server's host is down, because the move must shut down the guest there."""
    if not host_is_up(ctx, instance.host):
        raise Conflict("The compute service of the server's host is down; move the server when the service is up.")


ACTIONS: Mapping[str, Endpoint] = {
    "resize": Endpoint(resize, body=schemas.RESIZE),
    "confirmResize": Endpoint(confirm_resize, body=schemas.CONFIRM_RESIZE),
    "revertResize": Endpoint(revert_resize, body=schemas.REVERT_RESIZE),
    "migrate": Endpoint(migrate, body=schemas.MIGRATE),
    "os-migrateLive": Endpoint(live_migrate, body=schemas.LIVE_MIGRATE),
}
