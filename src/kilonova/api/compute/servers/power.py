# SPDX-License-Identifier: Apache-2.0
"""Power actions: start, stop, reboot, pause, unpause, suspend, resume.  Source: spec COMPUTE_API §1.4."""

from collections.abc import Mapping

from kilonova.api.compute.schemas import server_power as schemas
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.compute.servers.states import check_allowed
from kilonova.api.http import Context, Endpoint, Handler, Reply, Request
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.errors import Conflict, UnexpectedTaskState
from kilonova.model.instance import Instance
from kilonova.records import dataclass

_SERVERS = "os_compute_api:servers"
_REBOOT = f"{_SERVERS}:reboot"


@dataclass(frozen=True, slots=True)
class _Plain:
    """A power action without parameters. ``kind``: the kind of workflow that it starts."""

    kind: str
    rule: str
    description: str
    since: Version | None = None


_PLAIN: Mapping[str, _Plain] = {
    "os-start": _Plain("start", f"{_SERVERS}:start", "Start a server"),
    "os-stop": _Plain("stop", f"{_SERVERS}:stop", "Stop a server"),
    "pause": _Plain("pause", "os_compute_api:os-pause-server:pause", "Pause a server"),
    "unpause": _Plain("unpause", "os_compute_api:os-pause-server:unpause", "Unpause a server"),
    "suspend": _Plain("suspend", "os_compute_api:os-suspend-server:suspend", "Suspend a server"),
    "resume": _Plain("resume", "os_compute_api:os-suspend-server:resume", "Resume a server"),
}
RULES = (
    rule(_REBOOT, PROJECT_MEMBER_OR_ADMIN, "Reboot a server", action("reboot")),
    *(rule(plain.rule, PROJECT_MEMBER_OR_ADMIN, plain.description, action(name)) for name, plain in _PLAIN.items()),
)


def reboot(ctx: Context, request: Request) -> Reply:
    """Reboot a server, soft or hard.  Errors: 404, 409."""
    instance = find_server(ctx, request.path["server_id"], _REBOOT)
    hard = request.body["reboot"]["type"].upper() == "HARD"
    return _change_power(ctx, instance, "hard-reboot" if hard else "reboot")


def _handler(plain: _Plain) -> Handler:
    def act(ctx: Context, request: Request) -> Reply:
        """Run a power action without parameters.  Errors: 404, 409."""
        instance = find_server(ctx, request.path["server_id"], plain.rule)
        return _change_power(ctx, instance, plain.kind)

    return act


def _change_power(ctx: Context, instance: Instance, kind: str) -> Reply:
    check_allowed(ctx, instance, kind)
    try:
        ctx.backend.conductor.operations.power.change(instance.uuid, kind, ctx.requester)
    except UnexpectedTaskState as error:
        raise Conflict(error.message) from None
    return Reply(202)


ACTIONS: Mapping[str, Endpoint] = {
    "reboot": Endpoint(reboot, body=schemas.REBOOT),
    **{name: Endpoint(_handler(plain), body=schemas.PLAIN[name], since=plain.since) for name, plain in _PLAIN.items()},
}
