# SPDX-License-Identifier: Apache-2.0
"""What is answered of a server where a network, volume or share service would be needed: it has nothing there."""

from typing import Any

from kilonova.api.compute.missing_services import no_service
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Handler, Reply, Request
from kilonova.errors import NotFound


def nothing_of_server(rule: str, body: Any) -> Handler:
    """Return a handler that shows an empty list of something that a server has."""

    def show(ctx: Context, request: Request) -> Reply:
        """Answer 200 and empty.  Errors: 404 without the server."""
        find_server(ctx, request.path["server_id"], rule)
        return Reply(200, body)

    return show


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
        raise no_service(service)

    return refuse
