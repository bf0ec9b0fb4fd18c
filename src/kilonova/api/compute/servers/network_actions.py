# SPDX-License-Identifier: Apache-2.0
"""Actions on security groups of a server; all of them need a network service."""

from collections.abc import Mapping

from kilonova.api.compute.missing_services import NETWORK
from kilonova.api.compute.removed import gone
from kilonova.api.compute.schemas import server_networks as schemas
from kilonova.api.compute.servers.missing_services import needs_service
from kilonova.api.http import Endpoint
from kilonova.api.policy import PROJECT_MEMBER_OR_ADMIN, action, rule

#: Action → its policy rule, and the rule's description.
_NEED_NETWORKS: Mapping[str, tuple[str, str]] = {
    "addSecurityGroup": ("os_compute_api:os-security-groups:add", "Add a security group to a server"),
    "removeSecurityGroup": ("os_compute_api:os-security-groups:remove", "Remove a security group from a server"),
}
RULES = tuple(rule(name, PROJECT_MEMBER_OR_ADMIN, words, action(key)) for key, (name, words) in _NEED_NETWORKS.items())
ACTIONS: Mapping[str, Endpoint] = {
    **{
        action: Endpoint(needs_service(name, NETWORK), body=schemas.ACTIONS[action])
        for action, (name, _) in _NEED_NETWORKS.items()
    },
    "resetNetwork": Endpoint(gone),
}
