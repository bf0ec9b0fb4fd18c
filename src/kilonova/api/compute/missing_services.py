# SPDX-License-Identifier: Apache-2.0
"""What is answered where a network, volume or share service would be needed by a project."""

from typing import Any

from kilonova.api.http import Context, Handler, Reply, Request
from kilonova.errors import InvalidRequest, NotFound

NETWORK, VOLUME, SHARE = "network", "volume", "share"


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
        raise no_service(service)

    return refuse


def no_service(service: str) -> InvalidRequest:
    """Return the error of a request that needs a service which is not configured."""
    return InvalidRequest(f"No {service} service is configured.")
