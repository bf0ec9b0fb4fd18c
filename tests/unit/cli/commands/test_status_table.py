# SPDX-License-Identifier: Apache-2.0
"""The table of `kilonova status upgrade-check`, which scripts for ``nova-status`` parse."""

from types import SimpleNamespace
from typing import Any

from kilonova.cli.commands.status import table_of


def check(name: str, details: str = "") -> Any:
    return SimpleNamespace(name=name, result=SimpleNamespace(word="Success"), details=details)


def test_every_line_is_as_wide_as_the_longest() -> None:
    lines = table_of([check("Schema"), check("Agents", "word " * 60)]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert len(lines[0]) <= 104
    assert lines[0] == lines[2] == lines[-1]
    assert lines[1].strip("| ") == "Upgrade Check Results"
    assert [line.strip("| ") for line in lines[3:6]] == ["Check: Schema", "Result: Success", "Details: None"]
    assert any(line.startswith("|   word") for line in lines), "wrapped lines are indented"
