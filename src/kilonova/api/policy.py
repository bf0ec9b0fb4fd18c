# SPDX-License-Identifier: Apache-2.0
"""Authorization by oslo.policy, with the rule names of Nova and Placement. Rules are declared next to the handlers.

As in Nova and Placement, every rule needs a project-scoped token (``scope_types``): a role on a domain or on the system
gives no access to resources of projects.
"""

import logging
import re
import threading
import time
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field
from importlib.metadata import entry_points
from typing import Any

from oslo_policy import policy

from kilonova.api import policy_files
from kilonova.api.former_rules import ADMIN_BEFORE, OWNER_BEFORE, FormerRule, former_of
from kilonova.errors import ConfigurationError
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)

ADMIN = "rule:context_is_admin"
PROJECT_READER_OR_ADMIN = "rule:project_reader_or_admin"
PROJECT_MEMBER_OR_ADMIN = "rule:project_member_or_admin"
PROJECT_MANAGER_OR_ADMIN = "rule:project_manager_or_admin"
SERVICE_OR_ADMIN = "rule:service_or_admin"
OWN_OR_ADMIN = "rule:admin_or_owner_user"
ANYONE = "@"
_RELOAD_EVERY_S = 1.0
_REMEMBERED = 10_000
PROJECT, DOMAIN, SYSTEM = "project", "domain", "system"
#: Matches the text of checks that query an external service. oslo.policy has an entry point for each type of such
#: checks, e.g. ``http:``.
_ASKS_OUTSIDE = re.compile(
    "|".join(rf"\b{re.escape(each.name)}:" for each in entry_points(group="oslo.policy.rule_checks")) or r"(?!)"
)


def _base(name: str, check: str, former: FormerRule | None = None) -> policy.RuleDefault:
    before = None if former is None else former.as_policy()
    return policy.RuleDefault(name, check, scope_types=[PROJECT], deprecated_rule=before)


BASE_RULES = (
    _base("context_is_admin", "role:admin", ADMIN_BEFORE),
    _base("admin_api", "rule:context_is_admin"),
    _base("admin_or_owner", OWNER_BEFORE.check),
    _base("project_reader_api", "role:reader and project_id:%(project_id)s", OWNER_BEFORE),
    _base("project_member_api", "role:member and project_id:%(project_id)s", OWNER_BEFORE),
    _base("project_manager_api", "role:manager and project_id:%(project_id)s", ADMIN_BEFORE),
    _base("project_reader_or_admin", "rule:project_reader_api or rule:context_is_admin", OWNER_BEFORE),
    _base("project_member_or_admin", "rule:project_member_api or rule:context_is_admin", OWNER_BEFORE),
    _base("project_manager_or_admin", "rule:project_manager_api or rule:context_is_admin", ADMIN_BEFORE),
    _base("service_api", "role:service", ADMIN_BEFORE),
    _base("service_or_admin", "rule:service_api or rule:context_is_admin", ADMIN_BEFORE),
    _base("admin_or_owner_user", "user_id:%(user_id)s or rule:context_is_admin"),
)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Identity of the caller, as established by the authentication middleware.

    The scope of a token is a project, a domain, the system, or nothing. ``roles``: the caller's roles in that scope.
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
        """Return ``system``, ``domain`` or ``project``, or None for an unscoped token."""
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


#: Attributes of the caller that checks may use, such as the first ``user_id`` in ``user_id:%(user_id)s``.
OF_TOKENS = frozenset({*Credentials("", "").as_policy(), "is_admin", "role"})


def rule(
    name: str, check: str, description: str, *operations: tuple[str, str], **more: Any
) -> policy.DocumentedRuleDefault:
    """Return a policy rule with documentation. Example: ``rule(NAME, ANYONE, "List flavors", ("GET", "/flavors"))``."""
    documented = [{"method": method, "path": path} for method, path in operations] or [{"method": "GET", "path": "/"}]
    more.setdefault("deprecated_rule", former_of(name))
    return policy.DocumentedRuleDefault(name, check, description, documented, scope_types=[PROJECT], **more)


def action(name: str, path: str = "/servers/{server_id}/action") -> tuple[str, str]:
    """Return HTTP method and path of the action ``name``, in the form of oslo.policy's documentation."""
    return "POST", f"{path} ({name})"


class _Enforcer(policy.Enforcer):  # type: ignore[misc]
    """An enforcer that reads the policy files only once. After a change of the files it is replaced by a new one.

    Enforcers share the declared rules, which none of them changes; oslo.policy would copy each rule with its checks.
    ``memory``: cache of results, or None if at least one rule queries an external service.
    """

    _is_loaded = False
    memory: dict[Hashable, bool] | None = None

    def register_default(self, default: policy.RuleDefault) -> None:
        if default.name in self.registered_rules:
            raise policy.DuplicatePolicyError(default.name)
        self.registered_rules[default.name] = default

    def load_rules(self, force_reload: bool = False) -> None:
        if self._is_loaded and not force_reload:
            return
        self._need_check_rule = False  # policy_files.findings() reports undefined rules, with their files
        super().load_rules(force_reload)
        policy_files.require_no_circle(self.rules)
        asks_outside = any(_ASKS_OUTSIDE.search(str(check)) for check in self.rules.values())
        self.memory = None if asks_outside else {}
        self._is_loaded = True


class Policy:
    """The policy rules in force: the defaults in ``rules``, overridden by the operator's policy files.

    The files are checked for changes once a second. If a changed file is unreadable, the previous rules stay in force.
    ``findings``: mistakes in the policy files. ``set_by_files``: number of rules that the policy files set.
    The constructor raises ConfigurationError for an unreadable file.
    """

    findings: tuple[policy_files.Finding, ...] = ()
    set_by_files = 0

    def __init__(self, conf: Any, rules: Iterable[policy.RuleDefault]) -> None:
        policy_files.register_options(conf)
        self._conf = conf
        self.rules: tuple[policy.RuleDefault, ...] = (*BASE_RULES, *rules)
        self._turn = threading.Lock()
        self._looked_at = time.monotonic()
        self._stamp: object = None
        self._enforcer = self._load()
        if missing := policy_files.missing_file(conf):
            LOG.warning("[oslo_policy] policy_file: %s does not exist; all rules keep their defaults.", missing)

    def _load(self) -> _Enforcer:
        """Return an enforcer that has loaded the present policy files. Raises: ConfigurationError."""
        files = policy_files.files_of(self._conf)
        self._stamp = policy_files.stamp_of(files)
        said = [(file, policy_files.read_file(file)) for file in files]
        enforcer = _Enforcer(self._conf, use_conf=True)
        enforcer.suppress_default_change_warnings = True
        enforcer.suppress_deprecation_warnings = True
        enforcer.register_defaults(self.rules)
        try:
            enforcer.load_rules()
        except (ValueError, OSError) as error:  # a file was valid when it was read above, and changed since then
            raise ConfigurationError(f"The policy files cannot be read: {error}") from error
        known = {each.name for each in self.rules}
        default = self._conf.oslo_policy.policy_default_rule
        self.findings = tuple(policy_files.findings(said, known, OF_TOKENS, default))
        self.set_by_files = len(known & {name for _, content in said for name in content})
        for finding in self.findings:
            LOG.warning("Policy file %s", finding)
        return enforcer

    def _in_force(self) -> _Enforcer:
        if time.monotonic() - self._looked_at >= _RELOAD_EVERY_S and self._turn.acquire(blocking=False):
            try:
                self._looked_at = time.monotonic()
                if policy_files.stamp_of(policy_files.files_of(self._conf)) != self._stamp:
                    self._enforcer = self._load()
                    LOG.info("Policy files reloaded after a change")
            except (ConfigurationError, OSError) as error:
                LOG.error("Changed policy files cannot be loaded; the previous rules stay in force: %s", error)  # noqa: TRY400 - an operator's mistake needs no traceback
            finally:
                self._turn.release()
        return self._enforcer

    def check_of(self, name: str) -> str:
        """Return the check in force of the rule ``name``, in the syntax of policy files."""
        return str(self._in_force().rules[name])

    def allows(self, name: str, target: Mapping[str, Any], credentials: Credentials) -> bool:
        if credentials.scope is None or not credentials.user_id:
            return False  # for oslo.policy, a token without a project would belong to the project ""
        enforcer = self._in_force()
        memory = enforcer.memory
        if memory is None:
            return _ask(enforcer, name, target, credentials)
        key = (name, *target.items(), credentials)
        answer = memory.get(key)
        if answer is None:
            if len(memory) >= _REMEMBERED:
                memory.clear()
            answer = memory[key] = _ask(enforcer, name, target, credentials)
        return answer


def _ask(enforcer: _Enforcer, name: str, target: Mapping[str, Any], credentials: Credentials) -> bool:
    caller = credentials.as_policy()
    caller["is_admin"] = bool(enforcer.authorize("context_is_admin", {}, dict(caller), do_raise=False))
    return bool(enforcer.authorize(name, dict(target), caller, do_raise=False))
