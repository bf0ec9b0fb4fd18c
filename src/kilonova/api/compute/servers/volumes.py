# SPDX-License-Identifier: Apache-2.0
"""Routes of a server's volumes. Without a volume service, lists are empty and volumes cannot be attached."""

from kilonova.api.compute.missing_services import VOLUME
from kilonova.api.compute.servers.missing_services import needs_service, not_on_server, nothing_of_server
from kilonova.api.http import Endpoint, Routes
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries

_P = "os_compute_api:os-volumes-attachments"
_ALL = "/servers/{server_id}/os-volume_attachments"
_ONE = f"{_ALL}/{{volume_id}}"
RULES = (
    rule(f"{_P}:index", PROJECT_READER_OR_ADMIN, "List the volumes of a server", ("GET", _ALL)),
    rule(f"{_P}:show", PROJECT_READER_OR_ADMIN, "Show a volume of a server", ("GET", _ONE)),
    rule(f"{_P}:create", PROJECT_MEMBER_OR_ADMIN, "Attach a volume", ("POST", _ALL)),
    rule(f"{_P}:update", PROJECT_MEMBER_OR_ADMIN, "Change an attachment", ("PUT", _ONE)),
    rule(f"{_P}:delete", PROJECT_MEMBER_OR_ADMIN, "Detach a volume", ("DELETE", _ONE)),
)


ROUTES: Routes = {
    _ALL: {
        "GET": Endpoint(nothing_of_server(f"{_P}:index", {"volumeAttachments": []}), query=queries.OFFSET_PAGE),
        "POST": Endpoint(needs_service(f"{_P}:create", VOLUME)),
    },
    _ONE: {
        "GET": Endpoint(not_on_server(f"{_P}:show", "volume", "volume_id"), query=queries.NONE),
        "PUT": Endpoint(not_on_server(f"{_P}:update", "volume", "volume_id")),
        "DELETE": Endpoint(not_on_server(f"{_P}:delete", "volume", "volume_id")),
    },
}
