# SPDX-License-Identifier: Apache-2.0
"""What is answered where a network, volume or share service would be needed: servers have none of what it has."""

from typing import Any

from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Handler, Reply, Request
from kilonova.errors import InvalidRequest, NotFound

NETWORK, VOLUME, SHARE = "network", "volume", "share"


def nothing_of_server(rule: str, body: Any) -> Handler:
    """Return a handler that shows an empty list of something that a server has."""

    def show(ctx: Context, request: Request) -> Reply:
        """Answer 200 and empty.  Errors: 404 without the server."""
        find_server(ctx, request.path["server_id"], rule)
        return Reply(200, body)

    return show


def nothing(rule: str, body: Any) -> Handler:
    """Return a handler that shows an empty list of something that projects have at another service."""

    def show(ctx: Context, request: Request) -> Reply:
        """Answer 200 and empty."""
        del request
        ctx.authorize(rule)
        return Reply(200, body)

    return show


def not_there(rule: str, what: str, parameter: str) -> Handler:
    """Return a handler for one thing at another service. ``parameter``: of the path, which names it."""

    def refuse(ctx: Context, request: Request) -> Reply:
        """Answer 404."""
        ctx.authorize(rule)
        raise NotFound(f"There is no {what} {request.path[parameter]}.")

    return refuse


def cannot_be_made(rule: str, service: str) -> Handler:
    """Return a handler of what would be made at a service."""

    def refuse(ctx: Context, request: Request) -> Reply:
        """Answer 400."""
        del request
        ctx.authorize(rule)
        raise _missing(service)

    return refuse


def not_on_server(rule: str, what: str, parameter: str) -> Handler:
    """Return a handler for one thing of a server that no server has. ``parameter``: of the path, which names it."""

    def refuse(ctx: Context, request: Request) -> Reply:
        """Answer 404."""
        instance = find_server(ctx, request.path["server_id"], rule)
        raise NotFound(f"Instance {instance.uuid} has no {what} {request.path[parameter]}.")

    return refuse


def needs_service(rule: str, service: str) -> Handler:
    """Return a handler of what cannot be done to a server without a service."""

    def refuse(ctx: Context, request: Request) -> Reply:
        """Answer 400.  Errors: 404 without the server."""
        find_server(ctx, request.path["server_id"], rule)
        raise _missing(service)

    return refuse


def _missing(service: str) -> InvalidRequest:
    return InvalidRequest(f"No {service} service is configured.")
