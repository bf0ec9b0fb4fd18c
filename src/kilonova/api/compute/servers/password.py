# SPDX-License-Identifier: Apache-2.0
"""Routes of a server's administrator password. It is stored encrypted with the public key of the server's key pair.

Only the owner of the private key can decrypt it.
"""

from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import server_passwords

_P, _PATH = "os_compute_api:os-server-password", "/servers/{server_id}/os-server-password"
RULES = (
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show the encrypted password of a server", ("GET", _PATH)),
    rule(f"{_P}:clear", PROJECT_MEMBER_OR_ADMIN, "Delete the encrypted password of a server", ("DELETE", _PATH)),
)


def show_password(ctx: Context, request: Request) -> Reply:
    """GET …/os-server-password.  Shows the encrypted password in base64, or "" if none is stored.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:show")
    with ctx.read() as connection:
        return Reply(200, {"password": server_passwords.find(connection, instance.uuid) or ""})


def clear_password(ctx: Context, request: Request) -> Reply:
    """DELETE …/os-server-password.  Deletes the stored password, not the password inside the guest.  Errors: 404."""
    instance = find_server(ctx, request.path["server_id"], f"{_P}:clear")
    ctx.write(lambda tx: server_passwords.clear(tx, instance.uuid))
    return Reply(204)


ROUTES: Routes = {
    _PATH: {
        "GET": Endpoint(show_password, query=queries.NONE),
        "DELETE": Endpoint(clear_password, query=queries.NONE),
    }
}
