# SPDX-License-Identifier: Apache-2.0
"""Routes of networks, floating addresses and security groups, which exist up to 2.35. Nova forwards them to Neutron.

Kilonova has no network service, so lists are empty. Requests to routes that Nova has removed get 410.
"""

from kilonova.api.compute.missing_services import NETWORK, cannot_be_made, not_there, nothing
from kilonova.api.compute.removed import gone
from kilonova.api.http import Endpoint, Routes
from kilonova.api.microversion import Version
from kilonova.api.policy import ANYONE, PROJECT_MEMBER_OR_ADMIN, PROJECT_READER_OR_ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.api.validation import Schemas

_LAST = Version(2, 35)
_NETWORKS, _OWN_NETWORKS = "os_compute_api:os-networks", "os_compute_api:os-tenant-networks"
_POOLS, _ADDRESSES = "os_compute_api:os-floating-ip-pools", "os_compute_api:os-floating-ips"
_GROUPS = "os_compute_api:os-security-groups"
_GONE = Endpoint(gone)
_R, _M = PROJECT_READER_OR_ADMIN, PROJECT_MEMBER_OR_ADMIN
RULES = (
    rule(f"{_NETWORKS}:list", _R, "List networks", ("GET", "/os-networks")),
    rule(f"{_NETWORKS}:show", _R, "Show a network", ("GET", "/os-networks/{id}")),
    rule(f"{_OWN_NETWORKS}:list", _R, "List the networks of a project", ("GET", "/os-tenant-networks")),
    rule(f"{_OWN_NETWORKS}:show", _R, "Show a network of a project", ("GET", "/os-tenant-networks/{id}")),
    rule(_POOLS, ANYONE, "List pools of floating addresses", ("GET", "/os-floating-ip-pools")),
    rule(f"{_ADDRESSES}:list", _R, "List floating addresses", ("GET", "/os-floating-ips")),
    rule(f"{_ADDRESSES}:create", _M, "Allocate a floating address", ("POST", "/os-floating-ips")),
    rule(f"{_ADDRESSES}:show", _R, "Show a floating address", ("GET", "/os-floating-ips/{id}")),
    rule(f"{_ADDRESSES}:delete", _M, "Release a floating address", ("DELETE", "/os-floating-ips/{id}")),
    rule(f"{_GROUPS}:get", _R, "List security groups", ("GET", "/os-security-groups")),
    rule(f"{_GROUPS}:create", _M, "Make a security group", ("POST", "/os-security-groups")),
    rule(f"{_GROUPS}:show", _R, "Show a security group", ("GET", "/os-security-groups/{id}")),
    rule(f"{_GROUPS}:update", _M, "Change a security group", ("PUT", "/os-security-groups/{id}")),
    rule(f"{_GROUPS}:delete", _M, "Remove a security group", ("DELETE", "/os-security-groups/{id}")),
    rule(f"{_GROUPS}:rule:create", _M, "Add a rule to a security group", ("POST", "/os-security-group-rules")),
    rule(f"{_GROUPS}:rule:delete", _M, "Remove a security group's rule", ("DELETE", "/os-security-group-rules/{id}")),
)


def _all(rule_name: str, name: str, query: Schemas = queries.NONE) -> Endpoint:
    return Endpoint(nothing(rule_name, {name: []}), query=query, until=_LAST)


def _one(rule_name: str, what: str) -> Endpoint:
    return Endpoint(not_there(rule_name, what, "absent_id"), until=_LAST)


def _new(rule_name: str) -> Endpoint:
    return Endpoint(cannot_be_made(rule_name, NETWORK), until=_LAST)


ROUTES: Routes = {
    "/os-networks": {"GET": _all(f"{_NETWORKS}:list", "networks"), "POST": _GONE},
    "/os-networks/{absent_id}": {"GET": _one(f"{_NETWORKS}:show", "network"), "DELETE": _GONE},
    "/os-networks/{absent_id}/action": {"POST": _GONE},
    "/os-networks/add": {"POST": _GONE},
    "/os-tenant-networks": {"GET": _all(f"{_OWN_NETWORKS}:list", "networks"), "POST": _GONE},
    "/os-tenant-networks/{absent_id}": {"GET": _one(f"{_OWN_NETWORKS}:show", "network"), "DELETE": _GONE},
    "/os-floating-ip-pools": {"GET": _all(_POOLS, "floating_ip_pools")},
    "/os-floating-ips": {
        "GET": _all(f"{_ADDRESSES}:list", "floating_ips"),
        "POST": _new(f"{_ADDRESSES}:create"),
    },
    "/os-floating-ips/{absent_id}": {
        "GET": _one(f"{_ADDRESSES}:show", "floating address"),
        "DELETE": _one(f"{_ADDRESSES}:delete", "floating address"),
    },
    "/os-security-groups": {
        "GET": _all(f"{_GROUPS}:get", "security_groups", queries.OFFSET_PAGE),
        "POST": _new(f"{_GROUPS}:create"),
    },
    "/os-security-groups/{absent_id}": {
        "GET": _one(f"{_GROUPS}:show", "security group"),
        "PUT": _one(f"{_GROUPS}:update", "security group"),
        "DELETE": _one(f"{_GROUPS}:delete", "security group"),
    },
    "/os-security-group-rules": {"POST": _new(f"{_GROUPS}:rule:create")},
    "/os-security-group-rules/{absent_id}": {"DELETE": _one(f"{_GROUPS}:rule:delete", "rule of a security group")},
}
