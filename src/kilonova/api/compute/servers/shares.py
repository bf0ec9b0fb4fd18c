# SPDX-License-Identifier: Apache-2.0
"""Routes of a server's shares, since 2.97. Without a share service, lists are empty and shares cannot be attached."""

from kilonova.api.compute.missing_services import SHARE
from kilonova.api.compute.schemas import server_shares as schemas
from kilonova.api.compute.servers.missing_services import needs_service, not_on_server, nothing_of_server
from kilonova.api.http import Endpoint, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries

_P, _SINCE = "os_compute_api:os-server-shares", Version(2, 97)
_ALL = "/servers/{server_id}/shares"
_ONE = f"{_ALL}/{{share_id}}"
RULES = (
    rule(f"{_P}:index", PROJECT_READER_OR_ADMIN, "List the shares of a server", ("GET", _ALL)),
    rule(f"{_P}:create", PROJECT_MEMBER_OR_ADMIN, "Attach a share", ("POST", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show a share of a server", ("GET", _ONE)),
    rule(f"{_P}:delete", PROJECT_MEMBER_OR_ADMIN, "Detach a share", ("DELETE", _ONE)),
)

ROUTES: Routes = {
    _ALL: {
        "GET": Endpoint(nothing_of_server(f"{_P}:index", {"shares": []}), query=queries.NONE, since=_SINCE),
        "POST": Endpoint(needs_service(f"{_P}:create", SHARE), body=schemas.CREATE, since=_SINCE),
    },
    _ONE: {
        "GET": Endpoint(not_on_server(f"{_P}:show", "share", "share_id"), query=queries.NONE, since=_SINCE),
        "DELETE": Endpoint(not_on_server(f"{_P}:delete", "share", "share_id"), query=queries.NONE, since=_SINCE),
    },
}
