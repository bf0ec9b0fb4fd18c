# SPDX-License-Identifier: Apache-2.0
"""`POST …/action`: the one key of the body chooses what is done."""

from collections.abc import Mapping

from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.errors import InvalidRequest, NotFound


def run_action(ctx: Context, request: Request, actions: Mapping[str, Endpoint]) -> Reply:
    """Check the body against the action that it names, and run that.

    Raises: InvalidRequest for none or several; NotFound for one of other versions.
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
