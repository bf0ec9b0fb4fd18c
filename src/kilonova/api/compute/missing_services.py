# SPDX-License-Identifier: Apache-2.0
"""Handlers of routes that need a network, volume or share service, for clouds without the service."""

from typing import Any

from kilonova.api.http import Context, Handler, Reply, Request
from kilonova.errors import InvalidRequest, NotFound

NETWORK, VOLUME, SHARE = "network", "volume", "share"


def nothing(rule: str, body: Any) -> Handler:
    """Return a handler of a list route that always replies with ``body``, an empty list."""

    def show(ctx: Context, request: Request) -> Reply:
        """Reply 200 with an empty list."""
        del request
        ctx.authorize(rule)
        return Reply(200, body)

    return show


def not_there(rule: str, what: str, parameter: str) -> Handler:
    """Return a handler that replies 404, since resources of an absent service do not exist.

    ``what``: kind of the resource, for the message. ``parameter``: name of the path parameter with the resource's id.
    """

    def refuse(ctx: Context, request: Request) -> Reply:
        """Reply 404."""
        ctx.authorize(rule)
        raise NotFound(f"There is no {what} {request.path[parameter]}.")

    return refuse


def cannot_be_made(rule: str, service: str) -> Handler:
    """Return a handler of a create route that replies 400 and names the absent ``service``."""

    def refuse(ctx: Context, request: Request) -> Reply:
        """Reply 400."""
        del request
        ctx.authorize(rule)
        raise no_service(service)

    return refuse


def no_service(service: str) -> InvalidRequest:
    """Return the error for a request that needs ``service``, which the cloud does not have."""
    return InvalidRequest(f"No {service} service is configured.")
