# SPDX-License-Identifier: Apache-2.0
"""Routes of a server's ports and security groups.

Without a network service, lists are empty, and ports cannot be attached.
"""

from kilonova.api.compute.missing_services import NETWORK
from kilonova.api.compute.servers.missing_services import needs_service, not_on_server, nothing_of_server
from kilonova.api.http import Endpoint, Routes
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries

_PORTS, _GROUPS = "os_compute_api:os-attach-interfaces", "os_compute_api:os-security-groups"
_ALL_PORTS = "/servers/{server_id}/os-interface"
_ONE_PORT = f"{_ALL_PORTS}/{{port_id}}"
_ALL_GROUPS = "/servers/{server_id}/os-security-groups"
RULES = (
    rule(f"{_PORTS}:list", PROJECT_READER_OR_ADMIN, "List the ports of a server", ("GET", _ALL_PORTS)),
    rule(f"{_PORTS}:show", PROJECT_READER_OR_ADMIN, "Show a port of a server", ("GET", _ONE_PORT)),
    rule(f"{_PORTS}:create", PROJECT_MEMBER_OR_ADMIN, "Attach a port", ("POST", _ALL_PORTS)),
    rule(f"{_PORTS}:delete", PROJECT_MEMBER_OR_ADMIN, "Detach a port", ("DELETE", _ONE_PORT)),
    rule(f"{_GROUPS}:list", PROJECT_READER_OR_ADMIN, "List the security groups of a server", ("GET", _ALL_GROUPS)),
)

ROUTES: Routes = {
    _ALL_PORTS: {
        "GET": Endpoint(nothing_of_server(f"{_PORTS}:list", {"interfaceAttachments": []}), query=queries.NONE),
        "POST": Endpoint(needs_service(f"{_PORTS}:create", NETWORK)),
    },
    _ONE_PORT: {
        "GET": Endpoint(not_on_server(f"{_PORTS}:show", "port", "port_id"), query=queries.NONE),
        "DELETE": Endpoint(not_on_server(f"{_PORTS}:delete", "port", "port_id")),
    },
    _ALL_GROUPS: {"GET": Endpoint(nothing_of_server(f"{_GROUPS}:list", {"security_groups": []}), query=queries.NONE)},
}
