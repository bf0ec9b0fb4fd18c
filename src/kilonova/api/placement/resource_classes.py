# SPDX-License-Identifier: Apache-2.0
"""Routes of resource classes: list, show, create, rename (until 1.6), ensure existence (since 1.7), delete.

Since: 1.2.
"""

from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.policies import rule
from kilonova.api.placement.requests import dated, gives_json, newest, read_body, takes_json
from kilonova.api.placement.schemas import vocabulary as schemas
from kilonova.db import resource_classes
from kilonova.model.vocabulary import Word, is_custom

_ALL = "/resource_classes"
_ONE = "/resource_classes/{name}"
RULES = (
    rule("placement:resource_classes:list", "List resource classes", ("GET", _ALL)),
    rule("placement:resource_classes:create", "Create a resource class", ("POST", _ALL)),
    rule("placement:resource_classes:show", "Show a resource class", ("GET", _ONE)),
    rule("placement:resource_classes:update", "Create or rename a resource class", ("PUT", _ONE)),
    rule("placement:resource_classes:delete", "Delete a resource class", ("DELETE", _ONE)),
)
_SINCE = Version(1, 2)
_BODILESS = Version(1, 7)


@gives_json
def list_resource_classes(ctx: Context, request: Request) -> Reply:
    """GET /resource_classes."""
    ctx.authorize("placement:resource_classes:list")
    with ctx.read() as connection:
        found = resource_classes.list_all(connection)
    # Standard resource classes have no timestamp. Last-Modified of a list that contains one is the present time.
    changed_at = newest(*(_changed_at(word) for word in found)) if all(is_custom(word.name) for word in found) else None
    return dated(request, {"resource_classes": [_view(word.name) for word in found]}, changed_at)


@takes_json
def create_resource_class(ctx: Context, request: Request) -> Reply:
    """POST /resource_classes.  Errors: 400, 409."""
    ctx.authorize("placement:resource_classes:create")
    name = read_body(request, schemas.RESOURCE_CLASS)["name"]
    ctx.write(lambda tx: resource_classes.create(tx, name))
    return Reply(201, headers={"Location": _location(request, name)})


@gives_json
def show_resource_class(ctx: Context, request: Request) -> Reply:
    """GET /resource_classes/{name}.  Errors: 404."""
    ctx.authorize("placement:resource_classes:show")
    with ctx.read() as connection:
        word = resource_classes.get(connection, request.path["name"])
    return dated(request, _view(word.name), _changed_at(word))


def update_resource_class(ctx: Context, request: Request) -> Reply:
    """PUT /resource_classes/{name}.  Errors: 400, 404, 409.

    Until 1.6 it renames the resource class; since 1.7 it creates the resource class unless it exists.
    """
    return _ensure(ctx, request) if request.version >= _BODILESS else _rename(ctx, request)


@takes_json
def _rename(ctx: Context, request: Request) -> Reply:
    ctx.authorize("placement:resource_classes:update")
    new_name = read_body(request, schemas.RESOURCE_CLASS)["name"]
    word = ctx.write(lambda tx: resource_classes.rename(tx, request.path["name"], new_name))
    return Reply(200, _view(word.name))


def _ensure(ctx: Context, request: Request) -> Reply:
    ctx.authorize("placement:resource_classes:update")
    name = request.path["name"]
    schemas.RESOURCE_CLASS.check({"name": name}, request.version)
    created = ctx.write(lambda tx: resource_classes.ensure(tx, name))
    return Reply(201 if created else 204, headers={"Location": _location(request, name)})


def delete_resource_class(ctx: Context, request: Request) -> Reply:
    """DELETE /resource_classes/{name}.  Errors: 400 for a standard class, 404, 409 while the class is in use."""
    ctx.authorize("placement:resource_classes:delete")
    ctx.write(lambda tx: resource_classes.delete(tx, request.path["name"]))
    return Reply(204)


def _changed_at(word: Word) -> Any:
    return (word.updated_at or word.created_at) if is_custom(word.name) else None


def _view(name: str) -> dict[str, Any]:
    return {"name": name, "links": [{"rel": "self", "href": f"/resource_classes/{name}"}]}


def _location(request: Request, name: str) -> str:
    return f"{request.root_url}/resource_classes/{name}"


ROUTES: Routes = {
    _ALL: {
        "GET": Endpoint(list_resource_classes, since=_SINCE),
        "POST": Endpoint(create_resource_class, since=_SINCE),
    },
    _ONE: {
        "GET": Endpoint(show_resource_class, since=_SINCE),
        "PUT": Endpoint(update_resource_class, since=_SINCE),
        "DELETE": Endpoint(delete_resource_class, since=_SINCE),
    },
}
