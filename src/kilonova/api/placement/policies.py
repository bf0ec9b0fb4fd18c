# SPDX-License-Identifier: Apache-2.0
"""Base policy rules of the Placement API, with Placement's names.

With ``[oslo_policy] enforce_new_defaults = false``, rules that require the role "service" also allow administrators, as
they did before Placement used this role.
"""

from typing import Any

from oslo_policy import policy

from kilonova.api import policy as api_policy
from kilonova.api.policy import PROJECT

ADMIN_OR_SERVICE = "rule:admin_or_service_api"
SERVICE = "rule:service_api"
ADMIN_OR_PROJECT_READER_OR_SERVICE = "rule:admin_or_project_reader_or_service_api"

_ONLY_ADMIN = policy.DeprecatedRule(
    name="admin_api",
    check_str="role:admin",
    deprecated_reason="Services call Placement with the service role.",
    deprecated_since="2023.1",
)

BASE_RULES = (
    policy.RuleDefault(
        "admin_or_service_api", "role:admin or role:service", scope_types=[PROJECT], deprecated_rule=_ONLY_ADMIN
    ),
    policy.RuleDefault(
        "admin_or_project_reader_or_service_api",
        "role:admin or rule:project_reader_api or role:service",
        scope_types=[PROJECT],
        deprecated_rule=_ONLY_ADMIN,
    ),
)


def rule(name: str, description: str, *operations: tuple[str, str], check: str = ADMIN_OR_SERVICE) -> Any:
    """Return a policy rule of Placement with its documentation. ``check``: the rule's default."""
    return api_policy.rule(name, check, description, *operations)
