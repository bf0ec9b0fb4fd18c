# SPDX-License-Identifier: Apache-2.0
"""What a server has written to its console.  Source: spec COMPUTE_API §1.4."""

from collections.abc import Mapping

from kilonova.api.compute.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.api.schemas import server_consoles as schemas

_OUTPUT = "os_compute_api:os-console-output"
RULES = (rule(_OUTPUT, PROJECT_MEMBER_OR_ADMIN, "Show the console output of a server", action("os-getConsoleOutput")),)


def show_output(ctx: Context, request: Request) -> Reply:
    """Return the last lines of the console, in any state.  Errors: 404, 409 without a guest, 501, 503."""
    instance = find_server(ctx, request.path["server_id"], _OUTPUT)
    asked = request.body["os-getConsoleOutput"].get("length")
    lines = None if asked is None or int(asked) == -1 else int(asked)
    return Reply(200, {"output": ctx.backend.conductor.operations.consoles.output(instance, lines)})


ACTIONS: Mapping[str, Endpoint] = {"os-getConsoleOutput": Endpoint(show_output, body=schemas.OUTPUT)}
