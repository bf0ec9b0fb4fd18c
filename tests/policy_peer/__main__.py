# SPDX-License-Identifier: Apache-2.0
"""Compare the policy rules, their defaults and deprecated names with Nova's, read from standard input.

Exit code 1 for a rule that permits other callers than Nova's, and for a deprecated name that Nova does not have.
"""

import itertools
import json
import sys
from typing import Any

from oslo_policy import policy

from kilonova.api.former_rules import FORMER
from kilonova.api.policy import BASE_RULES, Credentials
from kilonova.cli.wiring.apis import RULES

_ROLES = ("reader", "member", "manager", "admin", "service", "other")
#: Rules used only by Nova's own aliases, whose Kilonova counterparts are built from other aliases.
_ALIASES = frozenset({"admin_or_owner", "admin_api"})
#: Rules that intentionally permit other callers than Nova's: services read console addresses (docs/adr/0030).
_ON_PURPOSE = frozenset({"os_compute_api:os-console-auth-tokens"})


def main() -> int:
    theirs = json.load(sys.stdin)
    ours = {rule.name: rule for rule in (*BASE_RULES, *RULES)}
    wrong = [f"{name}: {ours[name].check_str} is not {said['check']}" for name, said in _others(theirs, ours)]
    for name, was in FORMER.items():
        said = theirs.get(name, {}).get("former")
        if said is not None and said != [was.name, was.check]:
            wrong.append(f"{name}: was not {was.name} with {was.check}, but {said}")
    missing = {name: said["former"][0] for name, said in theirs.items() if said["former"] and name not in FORMER}
    wrong += [f"{name}: the deprecated name {was} is missing" for name, was in missing.items() if was.startswith("os_")]
    print(f"{len(ours.keys() & theirs.keys())} of {len(theirs)} Nova rules exist in Kilonova with the same names.")
    print("Missing in Kilonova:", *sorted(theirs.keys() - ours.keys()), sep="\n  ")
    own = sorted(name for name in ours.keys() - theirs.keys() if not name.startswith("kilonova:"))
    print("Only in Kilonova:", *own, sep="\n  ")
    print("Different:", *(wrong or ["nothing"]), sep="\n  ")
    return 1 if wrong else 0


def _others(theirs: dict[str, Any], ours: dict[str, Any]) -> list[tuple[str, Any]]:
    shared = [name for name in theirs if name in ours and name not in _ALIASES | _ON_PURPOSE]
    mine, yours = (
        _passing({name: rule.check_str for name, rule in ours.items()}),
        _passing({name: said["check"] for name, said in theirs.items()}),
    )
    return [(name, theirs[name]) for name in shared if mine[name] != yours[name]]


def _passing(checks: dict[str, str]) -> dict[str, frozenset[Any]]:
    """Return rule → permitted callers, for callers with up to two roles in the same and in another project."""
    rules = policy.Rules.from_dict(checks)
    enforcer = type("Rules", (), {"rules": rules})()
    callers = [
        (Credentials(user, project, roles).as_policy() | {"is_admin": "admin" in roles}, (user, project, roles))
        for size in (0, 1, 2)
        for roles in itertools.combinations(_ROLES, size)
        for user in ("u", "v")
        for project in ("p", "q")
    ]
    target = {"project_id": "p", "user_id": "u"}
    return {name: frozenset(who for creds, who in callers if rules[name](target, creds, enforcer)) for name in checks}


if __name__ == "__main__":
    sys.exit(main())
