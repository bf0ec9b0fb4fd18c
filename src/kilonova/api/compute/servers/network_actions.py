# SPDX-License-Identifier: Apache-2.0
"""Actions on security groups and addresses of a server; all of them need a network service."""

from collections.abc import Mapping

from kilonova.api.compute.missing_services import NETWORK
from kilonova.api.compute.removed import gone
from kilonova.api.compute.schemas import server_networks as schemas
from kilonova.api.compute.servers.missing_services import needs_service
from kilonova.api.http import Endpoint
from kilonova.api.microversion import Version
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule

#: Last microversion with actions on addresses. Since 2.44 clients call the network service instead.
_LAST = Version(2, 43)
#: Action → its policy rule, and the rule's description.
_NEED_NETWORKS: Mapping[str, tuple[str, str]] = {
    "addSecurityGroup": ("os_compute_api:os-security-groups:add", "Add a security group to a server"),
    "removeSecurityGroup": ("os_compute_api:os-security-groups:remove", "Remove a security group from a server"),
    "addFixedIp": ("os_compute_api:os-multinic:add", "Add a fixed address to a server"),
    "removeFixedIp": ("os_compute_api:os-multinic:remove", "Remove a fixed address from a server"),
    "addFloatingIp": ("os_compute_api:os-floating-ips:add", "Add a floating address to a server"),
    "removeFloatingIp": ("os_compute_api:os-floating-ips:remove", "Remove a floating address from a server"),
}
RULES = tuple(rule(name, PROJECT_MEMBER_OR_ADMIN, words, action(key)) for key, (name, words) in _NEED_NETWORKS.items())
ACTIONS: Mapping[str, Endpoint] = {
    **{
        action: Endpoint(
            needs_service(name, NETWORK), body=schemas.ACTIONS[action], until=_LAST if action.endswith("Ip") else None
        )
        for action, (name, _) in _NEED_NETWORKS.items()
    },
    "resetNetwork": Endpoint(gone),
}
