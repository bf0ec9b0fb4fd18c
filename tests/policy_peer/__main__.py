# SPDX-License-Identifier: Apache-2.0
"""Compare the rules of policy, their defaults and their former names with Nova's own, which come on standard input.

Exit code 1 for a rule that lets others pass than Nova's, and for a former name that is not Nova's.
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
#: What only Nova's aliases are made of, and what is made of other aliases here.
_ALIASES = frozenset({"admin_or_owner", "admin_api"})
#: Rules that let others pass than Nova's on purpose: services read where a console is (docs/adr/0030).
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
    wrong += [f"{name}: was {was}, which is not known" for name, was in missing.items() if was.startswith("os_")]
    print(f"{len(ours.keys() & theirs.keys())} rules of {len(theirs)} are here, with the same names as in Nova.")
    print("Not here:", *sorted(theirs.keys() - ours.keys()), sep="\n  ")
    own = sorted(name for name in ours.keys() - theirs.keys() if not name.startswith("kilonova:"))
    print("Only here:", *own, sep="\n  ")
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
    """Return who passes each rule, among callers of every set of up to two roles at home and elsewhere."""
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
