# SPDX-License-Identifier: Apache-2.0
"""Who may do what: oslo.policy with the rule names operators know, from the modules that use them."""

import time
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from oslo_policy import _checks, opts, policy

ADMIN = "rule:context_is_admin"
PROJECT_READER_OR_ADMIN = "rule:project_reader_or_admin"
PROJECT_MEMBER_OR_ADMIN = "rule:project_member_or_admin"
OWN_OR_ADMIN = "rule:admin_or_owner_user"
ANYONE = "@"
_RELOAD_EVERY_S = 1.0
_REMEMBERED = 10_000
#: Checks whose answer depends on nothing but the target and the credentials; an http: check asks somebody else.
_SELF_CONTAINED = (
    _checks.AndCheck,
    _checks.FalseCheck,
    _checks.GenericCheck,
    _checks.NotCheck,
    _checks.OrCheck,
    _checks.RoleCheck,
    _checks.RuleCheck,
    _checks.TrueCheck,
)

BASE_RULES = (
    policy.RuleDefault("context_is_admin", "role:admin"),
    policy.RuleDefault("admin_api", "rule:context_is_admin"),
    policy.RuleDefault(
        "project_reader_or_admin", "(role:reader and project_id:%(project_id)s) or rule:context_is_admin"
    ),
    policy.RuleDefault(
        "project_member_or_admin", "(role:member and project_id:%(project_id)s) or rule:context_is_admin"
    ),
    policy.RuleDefault(
        "project_manager_or_admin", "(role:manager and project_id:%(project_id)s) or rule:context_is_admin"
    ),
    policy.RuleDefault("admin_or_owner_user", "user_id:%(user_id)s or rule:context_is_admin"),
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who the caller is, as the authentication in front of the API established it."""

    user_id: str
    project_id: str
    roles: tuple[str, ...] = ()
    system_scope: str | None = None
    token: str | None = None
    user_domain_id: str | None = None
    project_domain_id: str | None = None

    def as_policy(self) -> dict[str, Any]:
        return {
            "user_id": self.user_id,
            "project_id": self.project_id,
            "roles": list(self.roles),
            "system_scope": self.system_scope,
            "user_domain_id": self.user_domain_id,
            "project_domain_id": self.project_domain_id,
        }

    def policy_key(self) -> tuple[Hashable, ...]:
        """Return everything that :meth:`as_policy` tells."""
        return (
            self.user_id,
            self.project_id,
            self.roles,
            self.system_scope,
            self.user_domain_id,
            self.project_domain_id,
        )


def rule(
    name: str, check: str, description: str, *operations: tuple[str, str], **more: Any
) -> policy.DocumentedRuleDefault:
    """Declare a rule next to the handler that uses it: ``rule(NAME, ANYONE, "List flavors", ("GET", "/flavors"))``."""
    documented = [{"method": method, "path": path} for method, path in operations] or [{"method": "GET", "path": "/"}]
    return policy.DocumentedRuleDefault(name, check, description, documented, **more)


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
            self.memory = {} if all(map(_is_self_contained, self.rules.values())) else None


def _is_self_contained(check: Any) -> bool:
    parts = [check.rule] if isinstance(check, _checks.NotCheck) else getattr(check, "rules", ())
    return type(check) in _SELF_CONTAINED and all(map(_is_self_contained, parts))


class Policy:
    """The rules in force: the defaults of the given modules, overridden by the operator's policy file."""

    def __init__(self, conf: Any, rules: Iterable[policy.RuleDefault]) -> None:
        # Deprecated rules go on to hold beside the new ones unless the operator says otherwise.
        opts.set_defaults(conf, enforce_new_defaults=False)
        self._enforcer = _Enforcer(conf, use_conf=True)
        self._enforcer.suppress_default_change_warnings = True
        self._enforcer.suppress_deprecation_warnings = True
        self._enforcer.register_defaults([*BASE_RULES, *rules])
        self._enforcer.load_rules()

    def allows(self, name: str, target: Mapping[str, Any], credentials: Credentials) -> bool:
        enforcer = self._enforcer
        enforcer.load_rules()
        memory = enforcer.memory
        if memory is None:
            return self._ask(name, target, credentials)
        key = (name, *target.items(), *credentials.policy_key())
        answer = memory.get(key)
        if answer is None:
            if len(memory) >= _REMEMBERED:
                memory.clear()
            answer = memory[key] = self._ask(name, target, credentials)
        return answer

    def _ask(self, name: str, target: Mapping[str, Any], credentials: Credentials) -> bool:
        return bool(self._enforcer.authorize(name, dict(target), credentials.as_policy(), do_raise=False))
