# SPDX-License-Identifier: Apache-2.0
"""Handlers of servers' sub-resources that need a network, volume or share service, for clouds without the service."""

from typing import Any

from kilonova.api.compute.missing_services import no_service
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Handler, Reply, Request
from kilonova.errors import NotFound


def nothing_of_server(rule: str, body: Any) -> Handler:
    """Return a handler that lists a server's sub-resources. It always replies with ``body``, an empty list."""

    def show(ctx: Context, request: Request) -> Reply:
        """Reply 200 with an empty list.  Errors: 404 for an unknown server."""
        find_server(ctx, request.path["server_id"], rule)
        return Reply(200, body)

    return show


def not_on_server(rule: str, what: str, parameter: str) -> Handler:
    """Return a handler that replies 404, because no server has such a sub-resource.

    ``what``: kind of the sub-resource, for the message. ``parameter``: name of the path parameter with its id.
    """

    def refuse(ctx: Context, request: Request) -> Reply:
        """Reply 404."""
        instance = find_server(ctx, request.path["server_id"], rule)
        raise NotFound(f"Instance {instance.uuid} has no {what} {request.path[parameter]}.")

    return refuse


def needs_service(rule: str, service: str) -> Handler:
    """Return a handler that refuses an operation on a server, because the cloud does not have ``service``."""

    def refuse(ctx: Context, request: Request) -> Reply:
        """Reply 400.  Errors: 404 for an unknown server."""
        find_server(ctx, request.path["server_id"], rule)
        raise no_service(service)

    return refuse
