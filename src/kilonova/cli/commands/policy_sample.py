# SPDX-License-Identifier: Apache-2.0
"""A policy.yaml that changes nothing: every rule with its default, what it is for, and what it guards, in comments."""

import textwrap
from collections.abc import Iterable
from typing import Any

_WIDTH = 118
_HEAD = """\
# Who may do what, for [oslo_policy] policy_file. Every line that is commented out shows the default.
# Take out the comment sign of a rule and change its check; `kilonova policy check` reads the result.
# The file is read again within a second of a change.
"""


def sample_text(rules: Iterable[Any]) -> str:
    """Return the sample, as YAML."""
    return _HEAD + "".join(f"\n{_block(rule)}" for rule in rules)


def _block(rule: Any) -> str:
    lines = textwrap.wrap(rule.description or "", _WIDTH)
    lines += [f"{each['method']}  {each['path']}" for each in getattr(rule, "operations", ())]
    former = rule.deprecated_rule
    if former is not None and ":" in former.name and former.name != rule.name and not former.name.startswith("rule:"):
        lines.append(f"Formerly a part of {former.name}.")
    said = "".join(f"# {line}\n" for line in lines)
    return f'{said}#"{rule.name}": "{rule.check_str}"\n'
