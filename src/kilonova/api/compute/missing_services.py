# SPDX-License-Identifier: Apache-2.0
"""Handlers of routes that need a network, volume or share service, for a cloud without that service."""

from typing import Any

from kilonova.api.http import Context, Handler, Reply, Request
from kilonova.errors import InvalidRequest, NotFound

NETWORK, VOLUME, SHARE = "network", "volume", "share"


def nothing(rule: str, body: Any) -> Handler:
    """Return a handler that replies with the empty list ``body``."""

    def show(ctx: Context, request: Request) -> Reply:
        """Reply 200 with an empty list."""
        del request
        ctx.authorize(rule)
        return Reply(200, body)

    return show


def not_there(rule: str, what: str, parameter: str) -> Handler:
    """Return a handler that replies 404 for a resource of an absent service. ``parameter``: its id in the path."""

    def refuse(ctx: Context, request: Request) -> Reply:
        """Reply 404."""
        ctx.authorize(rule)
        raise NotFound(f"There is no {what} {request.path[parameter]}.")

    return refuse


def cannot_be_made(rule: str, service: str) -> Handler:
    """Return a handler that refuses to create a resource, naming the absent service."""

    def refuse(ctx: Context, request: Request) -> Reply:
        """Reply 400."""
        del request
        ctx.authorize(rule)
        raise no_service(service)

    return refuse


def no_service(service: str) -> InvalidRequest:
    """Return the error for a request that needs a service that is not configured."""
    return InvalidRequest(f"No {service} service is configured.")
