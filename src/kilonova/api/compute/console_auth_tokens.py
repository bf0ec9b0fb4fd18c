# SPDX-License-Identifier: Apache-2.0
"""Look-up of console tokens: a console proxy sends a user's token and receives the console's address."""

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import SERVICE_OR_ADMIN, rule
from kilonova.api.schemas.types import query
from kilonova.api.validation import Schemas
from kilonova.db import console_tokens
from kilonova.errors import InvalidRequest, NotFound

_RULE, _PATH = "os_compute_api:os-console-auth-tokens", "/os-console-auth-tokens/{console_token}"
#: Query parameters of the route: all are ignored up to microversion 2.98, and refused from 2.99 on.
_QUERY = Schemas({(2, 99): query({}, extra=False)})
RULES = (rule(_RULE, SERVICE_OR_ADMIN, "Show the address of a token's console", ("GET", _PATH)),)


def show_token(ctx: Context, request: Request) -> Reply:
    """GET /os-console-auth-tokens/{console_token}.  2.99 adds tls_port.

    Errors: 400 before 2.31, because the route was then for RDP consoles only, which Kilonova does not have; 404.
    """
    ctx.authorize(_RULE)
    if request.version < Version(2, 31):
        raise InvalidRequest("RDP consoles are not supported; use microversion 2.31 or later.")
    with ctx.read() as connection:
        found = console_tokens.find(connection, request.path["console_token"], ctx.now())
    if found is None:
        raise NotFound("Token not found")
    view = {
        "instance_uuid": found.instance_uuid,
        "host": found.end.address,
        "port": found.end.port,
        "internal_access_path": found.end.internal_access_path,
    }
    if request.version >= Version(2, 99):
        view["tls_port"] = found.end.tls_port
    return Reply(200, {"console": view})


ROUTES: Routes = {_PATH: {"GET": Endpoint(show_token, query=_QUERY)}}
