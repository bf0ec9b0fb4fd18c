# SPDX-License-Identifier: Apache-2.0
"""Routes of volumes, snapshots and bare-metal nodes, which exist up to 2.35. Nova forwards them to Cinder and Ironic.

Kilonova uses neither service, so lists are empty.
"""

from kilonova.api.compute.missing_services import VOLUME, cannot_be_made, not_there, nothing
from kilonova.api.http import Endpoint, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ADMIN, PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.api.validation import Schemas

_LAST = Version(2, 35)
_VOLUMES, _NODES = "os_compute_api:os-volumes", "os_compute_api:os-baremetal-nodes"
_R, _M = PROJECT_READER_OR_ADMIN, PROJECT_MEMBER_OR_ADMIN
RULES = (
    rule(f"{_VOLUMES}:list", _R, "List volumes", ("GET", "/os-volumes")),
    rule(f"{_VOLUMES}:detail", _R, "List volumes in detail", ("GET", "/os-volumes/detail")),
    rule(f"{_VOLUMES}:create", _M, "Make a volume", ("POST", "/os-volumes")),
    rule(f"{_VOLUMES}:show", _R, "Show a volume", ("GET", "/os-volumes/{id}")),
    rule(f"{_VOLUMES}:delete", _M, "Remove a volume", ("DELETE", "/os-volumes/{id}")),
    rule(f"{_VOLUMES}:snapshots:list", _R, "List snapshots", ("GET", "/os-snapshots")),
    rule(f"{_VOLUMES}:snapshots:detail", _R, "List snapshots in detail", ("GET", "/os-snapshots/detail")),
    rule(f"{_VOLUMES}:snapshots:create", _M, "Make a snapshot", ("POST", "/os-snapshots")),
    rule(f"{_VOLUMES}:snapshots:show", _R, "Show a snapshot", ("GET", "/os-snapshots/{id}")),
    rule(f"{_VOLUMES}:snapshots:delete", _M, "Remove a snapshot", ("DELETE", "/os-snapshots/{id}")),
    rule(f"{_NODES}:list", ADMIN, "List bare-metal nodes", ("GET", "/os-baremetal-nodes")),
    rule(f"{_NODES}:show", ADMIN, "Show a bare-metal node", ("GET", "/os-baremetal-nodes/{id}")),
)


def _all(rule_name: str, name: str, query: Schemas = queries.OFFSET_PAGE) -> Endpoint:
    return Endpoint(nothing(rule_name, {name: []}), query=query, until=_LAST)


def _one(rule_name: str, what: str) -> Endpoint:
    return Endpoint(not_there(rule_name, what, "absent_id"), until=_LAST)


ROUTES: Routes = {
    "/os-volumes": {
        "GET": _all(f"{_VOLUMES}:list", "volumes"),
        "POST": Endpoint(cannot_be_made(f"{_VOLUMES}:create", VOLUME), until=_LAST),
    },
    "/os-volumes/detail": {"GET": _all(f"{_VOLUMES}:detail", "volumes")},
    "/os-volumes/{absent_id}": {
        "GET": _one(f"{_VOLUMES}:show", "volume"),
        "DELETE": _one(f"{_VOLUMES}:delete", "volume"),
    },
    "/os-snapshots": {
        "GET": _all(f"{_VOLUMES}:snapshots:list", "snapshots"),
        "POST": Endpoint(cannot_be_made(f"{_VOLUMES}:snapshots:create", VOLUME), until=_LAST),
    },
    "/os-snapshots/detail": {"GET": _all(f"{_VOLUMES}:snapshots:detail", "snapshots")},
    "/os-snapshots/{absent_id}": {
        "GET": _one(f"{_VOLUMES}:snapshots:show", "snapshot"),
        "DELETE": _one(f"{_VOLUMES}:snapshots:delete", "snapshot"),
    },
    "/os-baremetal-nodes": {"GET": _all(f"{_NODES}:list", "nodes", queries.NONE)},
    "/os-baremetal-nodes/{absent_id}": {"GET": _one(f"{_NODES}:show", "bare-metal node")},
}
