# SPDX-License-Identifier: Apache-2.0
"""Routes of traits: list, show, create, delete.  Since: 1.6."""

from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.placement.policies import rule
from kilonova.api.placement.requests import dated, gives_json, newest, read_query
from kilonova.api.placement.schemas import vocabulary as schemas
from kilonova.db import traits
from kilonova.errors import InvalidRequest
from kilonova.model.vocabulary import Word

_ALL = "/traits"
_ONE = "/traits/{name}"
RULES = (
    rule("placement:traits:list", "List traits", ("GET", _ALL)),
    rule("placement:traits:show", "Show whether a trait exists", ("GET", _ONE)),
    rule("placement:traits:update", "Create a trait", ("PUT", _ONE)),
    rule("placement:traits:delete", "Delete a trait", ("DELETE", _ONE)),
)
_SINCE = Version(1, 6)


@gives_json
def list_traits(ctx: Context, request: Request) -> Reply:
    """GET /traits.  Filters: ``name=in:A,B`` or ``name=startswith:P``, and ``associated=true|false``.  Errors: 400."""
    ctx.authorize("placement:traits:list")
    query = read_query(request, schemas.LIST_TRAITS)
    filters: dict[str, Any] = _name_filter(query["name"]) if "name" in query else {}
    if "associated" in query:
        if query["associated"].lower() not in {"true", "false"}:
            raise InvalidRequest('The query parameter "associated" only accepts "true" or "false"')
        filters["associated"] = query["associated"].lower() == "true"
    with ctx.read() as connection:
        found = traits.list_matching(connection, **filters)
    return dated(request, {"traits": [word.name for word in found]}, newest(*(changed_at(word) for word in found)))


def show_trait(ctx: Context, request: Request) -> Reply:
    """GET /traits/{name}.  Status 204 without a body if the trait exists.  Errors: 404."""
    ctx.authorize("placement:traits:show")
    with ctx.read() as connection:
        word = traits.get(connection, request.path["name"])
    return dated(request, None, changed_at(word), status=204)


def ensure_trait(ctx: Context, request: Request) -> Reply:
    """PUT /traits/{name}.  Status 201 if the trait is new, 204 if it exists.  Errors: 400 for an invalid name."""
    ctx.authorize("placement:traits:update")
    name = request.path["name"]
    if not schemas.is_custom_name(name):
        raise InvalidRequest(
            "The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix "
            '"CUSTOM_" and use following characters: "A"-"Z", "0"-"9" and "_"'
        )

    created, word = ctx.write(lambda tx: traits.ensure(tx, name))
    location = f"{request.root_url}/traits/{name}"
    return dated(request, None, changed_at(word), status=201 if created else 204, Location=location)


def delete_trait(ctx: Context, request: Request) -> Reply:
    """DELETE /traits/{name}.  Errors: 400 for a standard trait, 404, 409 while a provider has the trait."""
    ctx.authorize("placement:traits:delete")
    ctx.write(lambda tx: traits.delete(tx, request.path["name"]))
    return Reply(204)


def changed_at(word: Word) -> Any:
    """Return the time of the last change of a trait."""
    return word.updated_at or word.created_at


def _name_filter(text: str) -> dict[str, Any]:
    kind, colon, value = text.partition(":")
    if not colon:
        raise InvalidRequest(
            "Badly formatted name parameter. Expected name query string parameter in form: "
            f'?name=[in|startswith]:[name1,name2|prefix]. Got: "{text}"'
        )
    if kind == "in":
        return {"names": value.split(",")}
    return {"prefix": value} if kind == "startswith" else {}


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(list_traits, since=_SINCE)},
    _ONE: {
        "GET": Endpoint(show_trait, since=_SINCE),
        "PUT": Endpoint(ensure_trait, since=_SINCE),
        "DELETE": Endpoint(delete_trait, since=_SINCE),
    },
}
