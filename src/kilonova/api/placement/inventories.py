# SPDX-License-Identifier: Apache-2.0
"""Routes of a resource provider's inventories: one for all, and one for the inventory of a single resource class."""

from collections.abc import Iterable, Sequence
from typing import Any

from kilonova.api.faults import HttpError
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.bodies.inventories import ChangedInventory, Inventories, InventoryFields, NewInventory
from kilonova.api.placement.policies import rule
from kilonova.api.placement.requests import CONCURRENT_UPDATE, dated, gives_json, newest, takes_json
from kilonova.api.placement.resource_providers import (
    edit_provider,
    find_provider,
    read_body_for_provider,
    require_generation,
)
from kilonova.api.placement.schemas import inventories as schemas
from kilonova.api.typed_body import read_typed
from kilonova.db import inventories
from kilonova.db.provider_edits import Change, ProviderEdit
from kilonova.db.provider_states import ProviderState, Vocabulary
from kilonova.errors import Conflict, InvalidRequest, NotFound
from kilonova.model.provider import Inventory, Provider

_ALL = "/resource_providers/{uuid}/inventories"
_ONE = "/resource_providers/{uuid}/inventories/{resource_class}"
RULES = (
    rule("placement:resource_providers:inventories:list", "List inventories", ("GET", _ALL)),
    rule("placement:resource_providers:inventories:create", "Add an inventory", ("POST", _ALL)),
    rule("placement:resource_providers:inventories:show", "Show an inventory", ("GET", _ONE)),
    rule("placement:resource_providers:inventories:update", "Set inventories", ("PUT", _ALL), ("PUT", _ONE)),
    rule("placement:resource_providers:inventories:delete", "Delete inventories", ("DELETE", _ALL), ("DELETE", _ONE)),
)
_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")
_RESERVED_MAY_BE_TOTAL = Version(1, 26)
_DELETE_ALL = Version(1, 5)


@gives_json
def list_inventories(ctx: Context, request: Request) -> Reply:
    """GET /resource_providers/{uuid}/inventories.  Errors: 404."""
    ctx.authorize("placement:resource_providers:inventories:list")
    provider = find_provider(ctx, request)
    with ctx.read() as connection:
        found = inventories.of_provider(connection, provider.id)
    view = inventories_view((stored.inventory for stored in found), provider.generation)
    return dated(request, view, newest(*(stored.changed_at for stored in found)))


@gives_json
def show_inventory(ctx: Context, request: Request) -> Reply:
    """GET /resource_providers/{uuid}/inventories/{resource_class}.  Errors: 404."""
    ctx.authorize("placement:resource_providers:inventories:show")
    provider = find_provider(ctx, request)
    name = request.path["resource_class"]
    with ctx.read() as connection:
        for stored in inventories.of_provider(connection, provider.id):
            if stored.inventory.resource_class == name:
                view = {**inventory_view(stored.inventory), "resource_provider_generation": provider.generation}
                return dated(request, view, stored.changed_at)
    raise NotFound(f"No inventory of class {name} for {provider.uuid}")


@takes_json
def create_inventory(ctx: Context, request: Request) -> Reply:
    """POST /resource_providers/{uuid}/inventories.  Errors: 400, 404; 409 if the inventory already exists."""
    ctx.authorize("placement:resource_providers:inventories:create")
    body = read_typed(NewInventory, read_body_for_provider(ctx, request, schemas.CREATE))
    own = request.path["uuid"]
    label = f"Unable to create inventory for resource provider {own}"
    inventory = read_inventory(body.resource_class, body)
    change = _explained(label, inventories.added(inventory))
    generation = _edit(ctx, request, [inventory], change, label=label)
    location = f"{request.root_url}/resource_providers/{own}/inventories/{inventory.resource_class}"
    view = {**inventory_view(inventory), "resource_provider_generation": generation}
    return dated(request, view, status=201, Location=location)


@takes_json
def replace_inventories(ctx: Context, request: Request) -> Reply:
    """PUT /resource_providers/{uuid}/inventories.  Errors: 400, 404, 409.

    409 for a generation conflict, or if an inventory that would be deleted is in use.
    """
    ctx.authorize("placement:resource_providers:inventories:update")
    body = read_typed(Inventories, read_body_for_provider(ctx, request, schemas.REPLACE))
    wanted = [read_inventory(name, fields) for name, fields in body.inventories.items()]
    label = f"Unknown resource class in inventory for resource provider {request.path['uuid']}"
    change = _explained(label, inventories.all_changed(wanted))
    generation = _edit(ctx, request, wanted, change, seen=int(body.resource_provider_generation))
    return dated(request, inventories_view(wanted, generation))


@takes_json
def update_inventory(ctx: Context, request: Request) -> Reply:
    """PUT /resource_providers/{uuid}/inventories/{resource_class}.  Errors: 400, 404, 409."""
    ctx.authorize("placement:resource_providers:inventories:update")
    body = read_typed(ChangedInventory, read_body_for_provider(ctx, request, schemas.UPDATE))
    inventory = read_inventory(request.path["resource_class"], body)
    change = inventories.changed(inventory)
    generation = _edit(ctx, request, [inventory], change, seen=int(body.resource_provider_generation))
    return dated(request, {**inventory_view(inventory), "resource_provider_generation": generation})


def delete_inventories(ctx: Context, request: Request) -> Reply:
    """DELETE /resource_providers/{uuid}/inventories.  Since: 1.5.  Errors: 404; 409 while an inventory is in use."""
    if request.version < _DELETE_ALL:
        raise HttpError(405, "The method specified is not allowed for this resource.", Allow="GET, POST, PUT")
    ctx.authorize("placement:resource_providers:inventories:delete")
    _edit(ctx, request, [], inventories.all_changed([]))
    return Reply(204)


def delete_inventory(ctx: Context, request: Request) -> Reply:
    """DELETE /resource_providers/{uuid}/inventories/{resource_class}.  Errors: 404; 409 if the inventory is in use."""
    ctx.authorize("placement:resource_providers:inventories:delete")
    name = request.path["resource_class"]
    try:
        edit_provider(ctx, ProviderEdit(request.path["uuid"], inventories.removed(name), [name]))
    except Conflict as error:
        label = f"Unable to delete inventory of class {name}"
        raise Conflict(f"{label}: {error.message}", placement_code=CONCURRENT_UPDATE) from None
    return Reply(204)


def _edit(
    ctx: Context,
    request: Request,
    wanted: Sequence[Inventory],
    change: Change,
    *,
    seen: int | None = None,
    label: str | None = None,
) -> int:
    """Apply ``change`` to the provider in the path, and return the provider's new generation.

    ``wanted``: the new inventories, whose capacity is checked. ``seen``: the generation that the provider must have, or
    None for any. ``label``: prefix of the message for an invalid capacity. Raises: NotFound, Conflict, InvalidRequest.
    """
    own = request.path["uuid"]

    def checked(state: ProviderState, words: Vocabulary) -> ProviderState:
        if seen is not None:
            require_generation(state.provider, seen)
        said = label or f"Unable to update inventory for resource provider {own}"
        _check_capacity(request.version, state.provider, wanted, said)
        return change(state, words)

    return edit_provider(ctx, ProviderEdit(own, checked, [one.resource_class for one in wanted])).generation


def read_inventory(resource_class: str, fields: InventoryFields) -> Inventory:
    """Return an inventory of ``resource_class``, with the fields of a body."""
    return Inventory(
        resource_class,
        total=int(fields.total),
        reserved=int(fields.reserved),
        min_unit=int(fields.min_unit),
        max_unit=int(fields.max_unit),
        step_size=int(fields.step_size),
        allocation_ratio=fields.allocation_ratio,
    )


def inventory_view(inventory: Inventory) -> dict[str, Any]:
    """Return the fields of one inventory, without its resource class."""
    return {name: getattr(inventory, name) for name in _FIELDS}


def inventories_view(found: Iterable[Inventory], generation: int) -> dict[str, Any]:
    """Return the view of a provider's inventories, keyed by resource class, with its generation."""
    views = {inventory.resource_class: inventory_view(inventory) for inventory in found}
    return {"resource_provider_generation": generation, "inventories": views}


def _check_capacity(version: Version, provider: Provider, wanted: Iterable[Inventory], label: str) -> None:
    """Raise InvalidRequest for a negative capacity, or, before 1.26, a capacity of 0."""
    least = 0 if version >= _RESERVED_MAY_BE_TOTAL else 1
    for inventory in wanted:
        if inventory.capacity < least:
            relation = "greater than total" if least == 0 else "greater than or equal to total"
            raise InvalidRequest(
                f"{label}: Invalid inventory for '{inventory.resource_class}' on resource provider '{provider.uuid}'. "
                f"The reserved value is {relation}."
            )


def _explained(label: str, change: Change) -> Change:
    """Return ``change``, modified to raise InvalidRequest instead of NotFound for an unknown resource class.

    The resource class is in the body, not in the path, so the status must be 400. ``label``: prefix of the message.
    """

    def explained(state: ProviderState, words: Vocabulary) -> ProviderState:
        try:
            return change(state, words)
        except NotFound as error:
            raise InvalidRequest(f"{label}: {error.message}") from None

    return explained


ROUTES: Routes = {
    _ALL: {
        "GET": Endpoint(list_inventories),
        "POST": Endpoint(create_inventory),
        "PUT": Endpoint(replace_inventories),
        "DELETE": Endpoint(delete_inventories),
    },
    _ONE: {
        "GET": Endpoint(show_inventory),
        "PUT": Endpoint(update_inventory),
        "DELETE": Endpoint(delete_inventory),
    },
}
