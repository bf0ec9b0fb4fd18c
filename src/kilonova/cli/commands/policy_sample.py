# SPDX-License-Identifier: Apache-2.0
"""Generator of a sample policy.yaml, in which each rule has comments with its default, purpose and routes."""

import textwrap
from collections.abc import Iterable
from typing import Any

_WIDTH = 118
_HEAD = """\
# Access rules, for [oslo_policy] policy_file. Each commented line shows a default.
# To change a rule, uncomment it and edit its check; `kilonova policy check` checks the file.
# Changes of the file take effect within a second.
"""


def sample_text(rules: Iterable[Any]) -> str:
    """Return the text of the sample policy file (YAML)."""
    return _HEAD + "".join(f"\n{_block(rule)}" for rule in rules)


def _block(rule: Any) -> str:
    lines = textwrap.wrap(rule.description or "", _WIDTH)
    lines += [f"{each['method']}  {each['path']}" for each in getattr(rule, "operations", ())]
    former = rule.deprecated_rule
    if former is not None and ":" in former.name and former.name != rule.name and not former.name.startswith("rule:"):
        lines.append(f"Formerly a part of {former.name}.")
    said = "".join(f"# {line}\n" for line in lines)
    return f'{said}#"{rule.name}": "{rule.check_str}"\n'
