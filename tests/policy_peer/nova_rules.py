# SPDX-License-Identifier: Apache-2.0
"""Print the policy rules of Nova and Placement as JSON. Runs in their own environment, without Kilonova."""

import json
import sys
from typing import Any

from nova import policies as nova_policies  # type: ignore[import-not-found]

try:
    from placement import policies as placement_policies  # type: ignore[import-not-found]
except ImportError:  # some environments with Nova lack Placement
    placement_policies = None


def _told(rule: Any) -> dict[str, Any]:
    former = rule.deprecated_rule
    return {
        "check": rule.check_str,
        "former": None if former is None else [former.name, former.check_str],
        "routes": [[each["method"], each["path"]] for each in getattr(rule, "operations", ())],
    }


rules = {rule.name: _told(rule) for rule in nova_policies.list_rules()}
if placement_policies is not None:
    rules = {rule.name: _told(rule) for rule in placement_policies.list_rules()} | rules
json.dump(rules, sys.stdout)
