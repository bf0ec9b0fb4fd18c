# SPDX-License-Identifier: Apache-2.0
"""Who may do what: oslo.policy with the rule names operators know, from the modules that use them.

Every rule needs a token of a project (``scope_types``), as in Nova and in Placement: a role on a domain or on the
system says nothing about what is in projects.
"""

import re
import time
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from oslo_policy import policy

ADMIN = "rule:context_is_admin"
PROJECT_READER_OR_ADMIN = "rule:project_reader_or_admin"
PROJECT_MEMBER_OR_ADMIN = "rule:project_member_or_admin"
PROJECT_MANAGER_OR_ADMIN = "rule:project_manager_or_admin"
ADMIN_OR_SERVICE = "rule:context_is_admin or role:service"
OWN_OR_ADMIN = "rule:admin_or_owner_user"
ANYONE = "@"
_RELOAD_EVERY_S = 1.0
_REMEMBERED = 10_000
PROJECT, DOMAIN, SYSTEM = "project", "domain", "system"
#: Kinds of checks that ask somebody else (``http:``), by the name under which they are plugged into oslo.policy.
_ASKS_OUTSIDE = re.compile(
    "|".join(rf"\b{re.escape(each.name)}:" for each in entry_points(group="oslo.policy.rule_checks")) or r"(?!)"
)

BASE_RULES = (
    policy.RuleDefault("context_is_admin", "role:admin", scope_types=[PROJECT]),
    policy.RuleDefault("admin_api", "rule:context_is_admin", scope_types=[PROJECT]),
    policy.RuleDefault("project_reader_api", "role:reader and project_id:%(project_id)s", scope_types=[PROJECT]),
    policy.RuleDefault("project_member_api", "role:member and project_id:%(project_id)s", scope_types=[PROJECT]),
    policy.RuleDefault("project_manager_api", "role:manager and project_id:%(project_id)s", scope_types=[PROJECT]),
    policy.RuleDefault(
        "project_reader_or_admin", "rule:project_reader_api or rule:context_is_admin", scope_types=[PROJECT]
    ),
    policy.RuleDefault(
        "project_member_or_admin", "rule:project_member_api or rule:context_is_admin", scope_types=[PROJECT]
    ),
    policy.RuleDefault(
        "project_manager_or_admin", "rule:project_manager_api or rule:context_is_admin", scope_types=[PROJECT]
    ),
    policy.RuleDefault("admin_or_owner_user", "user_id:%(user_id)s or rule:context_is_admin", scope_types=[PROJECT]),
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who the caller is, as the authentication in front of the API established it.

    A token is scoped to one project, to one domain, to the whole system, or to nothing; roles are those in that scope.
    """

    user_id: str
    project_id: str
    roles: tuple[str, ...] = ()
    domain_id: str | None = None
    system_scope: str | None = None
    token: str | None = field(default=None, compare=False, repr=False)
    user_domain_id: str | None = None
    project_domain_id: str | None = None

    @property
    def scope(self) -> str | None:
        """Return ``system``, ``domain`` or ``project``; None for a token that is scoped to nothing."""
        if self.system_scope:
            return SYSTEM
        if self.domain_id:
            return DOMAIN
        return PROJECT if self.project_id else None

    def as_policy(self) -> dict[str, Any]:
        return {
            "user_id": self.user_id,
            "project_id": self.project_id,
            "roles": list(self.roles),
            "domain_id": self.domain_id,
            "system_scope": self.system_scope,
            "user_domain_id": self.user_domain_id,
            "project_domain_id": self.project_domain_id,
        }


def rule(
    name: str, check: str, description: str, *operations: tuple[str, str], **more: Any
) -> policy.DocumentedRuleDefault:
    """Declare a rule next to the handler that uses it: ``rule(NAME, ANYONE, "List flavors", ("GET", "/flavors"))``."""
    documented = [{"method": method, "path": path} for method, path in operations] or [{"method": "GET", "path": "/"}]
    return policy.DocumentedRuleDefault(name, check, description, documented, scope_types=[PROJECT], **more)


class _Enforcer(policy.Enforcer):  # type: ignore[misc]
    """An enforcer that looks for changed policy files once a second, not at every check.

    ``memory``: answers given since it last looked, or None when an answer may change by itself.
    """

    _looked_at = -_RELOAD_EVERY_S
    memory: dict[Hashable, bool] | None = None

    def load_rules(self, force_reload: bool = False) -> None:
        now = time.monotonic()
        if force_reload or now - self._looked_at >= _RELOAD_EVERY_S:
            self._looked_at = now
            super().load_rules(force_reload)
            asks_outside = any(_ASKS_OUTSIDE.search(str(check)) for check in self.rules.values())
            self.memory = None if asks_outside else {}


class Policy:
    """The rules in force: the defaults of the given modules, overridden by the operator's policy file."""

    def __init__(self, conf: Any, rules: Iterable[policy.RuleDefault]) -> None:
        self._enforcer = _Enforcer(conf, use_conf=True)
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.suppress_deprecation_warnings = True
        self._enforcer.register_defaults([*BASE_RULES, *rules])
        self._enforcer.load_rules()

    def allows(self, name: str, target: Mapping[str, Any], credentials: Credentials) -> bool:
        if credentials.scope is None or not credentials.user_id:
            return False  # oslo.policy would take it for a token of the project ""
        enforcer = self._enforcer
        enforcer.load_rules()
        memory = enforcer.memory
        if memory is None:
            return self._ask(name, target, credentials)
        key = (name, *target.items(), credentials)
        answer = memory.get(key)
        if answer is None:
            if len(memory) >= _REMEMBERED:
                memory.clear()
            answer = memory[key] = self._ask(name, target, credentials)
        return answer

    def _ask(self, name: str, target: Mapping[str, Any], credentials: Credentials) -> bool:
        return bool(self._enforcer.authorize(name, dict(target), credentials.as_policy(), do_raise=False))
