# SPDX-License-Identifier: Apache-2.0
"""Key pairs of users: import, generate (before 2.92), list, show, delete."""

from typing import TYPE_CHECKING, Any

from kilonova.api.compute.links import next_page
from kilonova.api.compute.quota_limits import limits_of_project
from kilonova.api.compute.schemas import keypairs as schemas
from kilonova.api.compute.times import stored_time
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, integer_param
from kilonova.api.microversion import Version
from kilonova.api.policy import OWN_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import keypairs
from kilonova.db.core.transaction import Transaction
from kilonova.deadline import heeding
from kilonova.model.keypair import Keypair
from kilonova.notifications.events import KeypairActed
from kilonova.notifications.message import Phase

if TYPE_CHECKING:
    from kilonova.api.compute.key_material import KeyMaterial

_ONE = "/os-keypairs/{keypair_name}"
RULES = (
    rule("os_compute_api:os-keypairs:index", OWN_OR_ADMIN, "List key pairs", ("GET", "/os-keypairs")),
    rule("os_compute_api:os-keypairs:create", OWN_OR_ADMIN, "Create a key pair", ("POST", "/os-keypairs")),
    rule("os_compute_api:os-keypairs:show", OWN_OR_ADMIN, "Show a key pair", ("GET", _ONE)),
    rule("os_compute_api:os-keypairs:delete", OWN_OR_ADMIN, "Delete a key pair", ("DELETE", _ONE)),
)


def list_keypairs(ctx: Context, request: Request) -> Reply:
    """GET /os-keypairs.  2.2 adds the field type, 2.10 the query parameter user_id, 2.35 paging by name."""
    user_id = _user_of(ctx, request)
    ctx.authorize("os_compute_api:os-keypairs:index", user_id=user_id)
    with ctx.read() as connection:
        found = list(keypairs.list_for(connection, user_id))
    links: dict[str, Any] = {}
    if request.version >= Version(2, 35):
        limit = integer_param(request, "limit")
        found, links = next_page(ctx, request, found, lambda keypair: keypair.name, "keypairs", limit=limit)
    return Reply(200, {"keypairs": [{"keypair": _short_view(request, keypair)} for keypair in heeding(found)], **links})


def create_keypair(ctx: Context, request: Request) -> Reply:
    """POST /os-keypairs.  Errors: 400, 403 over quota, 409 if the name exists."""
    asked = request.body["keypair"]
    user_id, kind = asked.get("user_id") or ctx.user_id, asked.get("type", "ssh")
    ctx.authorize("os_compute_api:os-keypairs:create", user_id=user_id)
    made = _material(kind, user_id, asked.get("public_key"))
    keypair = Keypair(
        id=0, user_id=user_id, name=asked["name"], type=kind, fingerprint=made.fingerprint, public_key=made.public
    )
    limits = limits_of_project(ctx, ctx.project_id)

    def job(tx: Transaction) -> Keypair:
        return keypairs.create(tx, keypair, limit=limits(tx.connection, user_id)["key_pairs"])

    stored = ctx.write(job)
    action = "create" if made.private is not None else "import"
    ctx.announce(KeypairActed(action, Phase.START, stored), KeypairActed(action, Phase.END, stored))
    view = {**_short_view(request, stored), "user_id": stored.user_id}
    if made.private is not None:
        view["private_key"] = made.private
    return Reply(201 if request.version >= Version(2, 2) else 200, {"keypair": view})


def show_keypair(ctx: Context, request: Request) -> Reply:
    """GET /os-keypairs/{keypair_name}.  Errors: 404."""
    user_id = _user_of(ctx, request)
    ctx.authorize("os_compute_api:os-keypairs:show", user_id=user_id)
    with ctx.read() as connection:
        keypair = keypairs.get(connection, user_id, request.path["keypair_name"])
    view = {
        **_short_view(request, keypair),
        "id": keypair.id,
        "user_id": keypair.user_id,
        "created_at": stored_time(keypair.created_at),
        "updated_at": None,
        "deleted": False,
        "deleted_at": None,
    }
    return Reply(200, {"keypair": view})


def delete_keypair(ctx: Context, request: Request) -> Reply:
    """DELETE /os-keypairs/{keypair_name}.  Errors: 404."""
    user_id = _user_of(ctx, request)
    ctx.authorize("os_compute_api:os-keypairs:delete", user_id=user_id)
    name = request.path["keypair_name"]

    def job(tx: Transaction) -> Keypair:
        present = keypairs.get(tx.connection, user_id, name)
        keypairs.delete(tx, user_id, name)
        return present

    deleted = ctx.write(job)
    ctx.announce(KeypairActed("delete", Phase.START, deleted), KeypairActed("delete", Phase.END, deleted))
    return Reply(204 if request.version >= Version(2, 2) else 202)


def _user_of(ctx: Context, request: Request) -> str:
    """Return the user whose key pairs are requested: ``user_id`` of the query (since 2.10), or else the caller."""
    if request.version < Version(2, 10):
        return ctx.user_id
    return request.param("user_id") or ctx.user_id


def _material(kind: str, user_id: str, public_key: str | None) -> "KeyMaterial":
    from kilonova.api.compute import key_material  # noqa: PLC0415 - imports cryptography, which is slow

    if public_key is not None:
        return key_material.read_x509(public_key) if kind == "x509" else key_material.read_ssh(public_key)
    return key_material.make_x509(user_id) if kind == "x509" else key_material.make_ssh()


def _short_view(request: Request, keypair: Keypair) -> dict[str, Any]:
    view = {"name": keypair.name, "public_key": keypair.public_key, "fingerprint": keypair.fingerprint}
    if request.version >= Version(2, 2):
        view["type"] = keypair.type
    return view


ROUTES: Routes = {
    "/os-keypairs": {
        "GET": Endpoint(list_keypairs, query=schemas.LIST),
        "POST": Endpoint(create_keypair, body=schemas.CREATE, query=queries.NONE),
    },
    _ONE: {
        "GET": Endpoint(show_keypair, query=schemas.ONE),
        "DELETE": Endpoint(delete_keypair, query=schemas.ONE),
    },
}
