# SPDX-License-Identifier: Apache-2.0
"""Remote consoles: users receive the address of a console proxy, with a token that is valid for some minutes.

The proxy exchanges the token for the console's address on the compute host, which users never see (ADR 30). The
proxy's own address is an option.
"""

from collections.abc import Callable, Mapping
from urllib.parse import parse_qsl, urlencode, urlsplit

from kilonova.api.compute.schemas import remote_consoles as schemas
from kilonova.api.compute.servers.abilities import require_answer
from kilonova.api.compute.servers.servers import find_server
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule
from kilonova.api.schemas import queries
from kilonova.config.consoles import ConsoleSettings
from kilonova.errors import InvalidRequest
from kilonova.model.console import ConsoleProtocol
from kilonova.records import dataclass

_RULE, _PATH = "os_compute_api:os-remote-consoles", "/servers/{server_id}/remote-consoles"
_ACTIONS = ("os-getVNCConsole", "os-getSPICEConsole", "os-getRDPConsole", "os-getSerialConsole")
RULES = (rule(_RULE, PROJECT_MEMBER_OR_ADMIN, "Open a remote console", ("POST", _PATH), *map(action, _ACTIONS)),)


@dataclass(frozen=True, slots=True)
class _Kind:
    """A type of console. ``is_enabled``, ``base_url``: read the options of this type from the settings."""

    protocol: ConsoleProtocol
    is_enabled: Callable[[ConsoleSettings], bool]
    base_url: Callable[[ConsoleSettings], str]


#: Console type → its protocol and options. Types that Nova has removed are not listed, so they are unavailable.
_KINDS: Mapping[str, _Kind] = {
    "novnc": _Kind(ConsoleProtocol.VNC, lambda conf: conf.vnc_enabled, lambda conf: conf.novncproxy_base_url),
    "spice-html5": _Kind(ConsoleProtocol.SPICE, lambda conf: conf.spice_enabled, lambda conf: conf.html5proxy_base_url),
    "spice-direct": _Kind(
        ConsoleProtocol.SPICE, lambda conf: conf.spice_enabled, lambda conf: conf.spice_direct_proxy_base_url
    ),
    "serial": _Kind(ConsoleProtocol.SERIAL, lambda conf: conf.serial_enabled, lambda conf: conf.serial_base_url),
    "webmks": _Kind(ConsoleProtocol.MKS, lambda conf: conf.mks_enabled, lambda conf: conf.mksproxy_base_url),
}


def create_console(ctx: Context, request: Request) -> Reply:
    """POST /servers/{server_id}/remote-consoles.  Since: 2.6; 2.8 adds mks, 2.99 adds spice-direct.

    Errors: 400 for an unavailable console type; 404; 409 unless the guest runs; 501; 503.
    """
    asked = request.body["remote_console"]
    url = open_console(ctx, request, asked["protocol"], asked["type"])
    return Reply(200, {"remote_console": {"protocol": asked["protocol"], "type": asked["type"], "url": url}})


def open_console(ctx: Context, request: Request, protocol: str, console_type: str) -> str:
    """Return the address of the console proxy for a server's console, with a new token.

    Raises: InvalidRequest for an unavailable console type; NotFound, Conflict, Unsupported, Unavailable.
    """
    instance = find_server(ctx, request.path["server_id"], _RULE)
    settings, kind = ctx.backend.settings.consoles, _KINDS.get(console_type)
    if kind is None or kind.protocol != protocol or not kind.is_enabled(settings):
        raise InvalidRequest(f"Unavailable console type {console_type}.", field="type")
    require_answer(ctx, instance, "remote-consoles")
    consoles = ctx.backend.conductor.operations.consoles
    token = consoles.open(instance, kind.protocol, console_type, settings.token_ttl_s)
    return _address(kind.base_url(settings), console_type, token)


def _address(base_url: str, console_type: str, token: str) -> str:
    """Return the address of a console proxy with a token.

    For noVNC the token is in the query parameter ``path``, which noVNC passes on to the proxy.
    """
    parts = urlsplit(base_url)
    added = ("path", f"?token={token}") if console_type == "novnc" else ("token", token)
    return parts._replace(query=urlencode([*parse_qsl(parts.query, keep_blank_values=True), added])).geturl()


ROUTES: Routes = {
    _PATH: {"POST": Endpoint(create_console, body=schemas.CREATE, query=queries.NONE, since=Version(2, 6))}
}
