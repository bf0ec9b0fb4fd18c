# SPDX-License-Identifier: Apache-2.0
"""Dispatcher of `POST …/action` requests, whose body has a single key: the name of the action."""

from collections.abc import Mapping

from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.errors import InvalidRequest, NotFound


def run_action(ctx: Context, request: Request, actions: Mapping[str, Endpoint]) -> Reply:
    """Validate the body with the schema of its action, and call the action's handler.

    Raises: InvalidRequest unless the body names exactly one known action; NotFound if the action does not exist in the
    request's microversion.
    """
    if not isinstance(request.body, dict) or len(request.body) != 1:
        raise InvalidRequest("Malformed request body: exactly one action is expected.")
    name = next(iter(request.body))
    endpoint = actions.get(name)
    if endpoint is None:
        raise InvalidRequest(f"There is no such action: {name}.", action=name)
    if not endpoint.exists_at(request.version):
        raise NotFound("The resource could not be found.")
    if endpoint.body is not None:
        endpoint.body.check(request.body, request.version)
    return endpoint.handler(ctx, request)
