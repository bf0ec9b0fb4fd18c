# SPDX-License-Identifier: Apache-2.0
"""Who may do what: oslo.policy with the rule names operators know, from the modules that use them.

Every rule needs a token of a project (``scope_types``), as in Nova and in Placement: a role on a domain or on the
system says nothing about what is in projects.
"""

import logging
import re
import threading
import time
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from oslo_policy import policy

from kilonova.api import policy_files
from kilonova.api.former_rules import ADMIN_BEFORE, OWNER_BEFORE, FormerRule, former_of
from kilonova.errors import ConfigurationError

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
#: Kinds of checks that ask somebody else (``http:``), by the name under which they are plugged into oslo.policy.
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


#: What checks may ask about a caller, as in ``user_id:%(user_id)s``.
OF_TOKENS = frozenset({*Credentials("", "").as_policy(), "is_admin", "role"})


def rule(
    name: str, check: str, description: str, *operations: tuple[str, str], **more: Any
) -> policy.DocumentedRuleDefault:
    """Declare a rule next to the handler that uses it: ``rule(NAME, ANYONE, "List flavors", ("GET", "/flavors"))``."""
    documented = [{"method": method, "path": path} for method, path in operations] or [{"method": "GET", "path": "/"}]
    more.setdefault("deprecated_rule", former_of(name))
    return policy.DocumentedRuleDefault(name, check, description, documented, scope_types=[PROJECT], **more)


def action(name: str, path: str = "/servers/{server_id}/action") -> tuple[str, str]:
    """Return the operation that an action is: of a server, or on another path."""
    return "POST", f"{path} ({name})"


class _Enforcer(policy.Enforcer):  # type: ignore[misc]
    """An enforcer that reads its files once: others take its place when they change.

    ``memory``: answers given so far, or None when an answer may change by itself.
    """

    _is_loaded = False
    memory: dict[Hashable, bool] | None = None

    def load_rules(self, force_reload: bool = False) -> None:
        if self._is_loaded and not force_reload:
            return
        self._need_check_rule = False  # it is told in other words, with the name of the file
        super().load_rules(force_reload)
        policy_files.require_no_circle(self.rules)
        asks_outside = any(_ASKS_OUTSIDE.search(str(check)) for check in self.rules.values())
        self.memory = None if asks_outside else {}
        self._is_loaded = True


class Policy:
    """The rules in force: the defaults of the given modules, overridden by the operator's policy files.

    Files are looked at once a second; one that has become unreadable changes nothing until it is mended.
    ``findings``: what in them is odd; ``set_by_files``: how many rules they set.
    Raises: ConfigurationError, for a file that is unreadable when this is made.
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
            LOG.warning("[oslo_policy] policy_file: %s is not there, so the defaults of all rules hold.", missing)

    def _load(self) -> _Enforcer:
        """Raises: ConfigurationError."""
        files = policy_files.files_of(self._conf)
        self._stamp = policy_files.stamp_of(files)
        said = [(file, policy_files.read_file(file)) for file in files]
        enforcer = _Enforcer(self._conf, use_conf=True)
        enforcer.suppress_default_change_warnings = True
        enforcer.suppress_deprecation_warnings = True
        enforcer.register_defaults(self.rules)
        try:
            enforcer.load_rules()
        except (ValueError, OSError) as error:  # it has changed since it was read
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
                    LOG.info("The policy files have changed and were read again")
            except (ConfigurationError, OSError) as error:
                LOG.error("The policy files have changed, and what they said before stays in force: %s", error)  # noqa: TRY400 - it is the operator's
            finally:
                self._turn.release()
        return self._enforcer

    def check_of(self, name: str) -> str:
        """Return the check in force of a rule, as a policy file would have it."""
        return str(self._in_force().rules[name])

    def allows(self, name: str, target: Mapping[str, Any], credentials: Credentials) -> bool:
        if credentials.scope is None or not credentials.user_id:
            return False  # oslo.policy would take it for a token of the project ""
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
