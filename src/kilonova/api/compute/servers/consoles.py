# SPDX-License-Identifier: Apache-2.0
"""Actions that show the output of a server's console, and before 2.6 the address of its remote console.

Source: spec COMPUTE_API §1.4.
"""

from collections.abc import Mapping

from kilonova.api.compute.schemas import remote_consoles
from kilonova.api.compute.schemas import server_consoles as schemas
from kilonova.api.compute.servers.abilities import require_answer
from kilonova.api.compute.servers.remote_consoles import open_console
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Endpoint, Handler, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule

_OUTPUT = "os_compute_api:os-console-output"
RULES = (rule(_OUTPUT, PROJECT_MEMBER_OR_ADMIN, "Show the console output of a server", action("os-getConsoleOutput")),)
#: Last microversion with actions for remote consoles. Since 2.6 clients use the route remote-consoles instead.
_LAST = Version(2, 5)
#: Action → console protocol.
_ADDRESSES = {
    "os-getVNCConsole": "vnc",
    "os-getSPICEConsole": "spice",
    "os-getRDPConsole": "rdp",
    "os-getSerialConsole": "serial",
}


def show_output(ctx: Context, request: Request) -> Reply:
    """Return the last lines of the console output. The server may be in any state.

    Errors: 404; 409 if the server has no guest; 501; 503.
    """
    instance = find_server(ctx, request.path["server_id"], _OUTPUT)
    require_answer(ctx, instance, "os-getConsoleOutput")
    asked = request.body["os-getConsoleOutput"].get("length")
    lines = None if asked is None or int(asked) == -1 else int(asked)
    return Reply(200, {"output": ctx.backend.conductor.operations.consoles.output(instance, lines)})


def _address_handler(name: str, protocol: str) -> Handler:
    def show_address(ctx: Context, request: Request) -> Reply:
        """Return the address of a remote console.  Until: 2.5.  Errors: 400, 404, 409, 501, 503."""
        console_type = request.body[name]["type"]
        url = open_console(ctx, request, protocol, console_type)
        return Reply(200, {"console": {"type": console_type, "url": url}})

    return show_address


ACTIONS: Mapping[str, Endpoint] = {
    "os-getConsoleOutput": Endpoint(show_output, body=schemas.OUTPUT),
    **{
        name: Endpoint(_address_handler(name, protocol), body=remote_consoles.ACTIONS[name], until=_LAST)
        for name, protocol in _ADDRESSES.items()
    },
}
