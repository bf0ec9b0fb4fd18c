# SPDX-License-Identifier: Apache-2.0
import io
from typing import Any

import pytest
from rich.console import Console

from kilonova.cli.commands.capacity import capacity_table
from kilonova.cli.main import main

FULL = {"rule": "Placement: VCPU", "reason": "cannot give 4 VCPU", "hosts": 2}
ODD = {"rule": "request", "reason": "no [such] guest", "hosts": 0}
FOUND = {
    "seq": 7,
    "fits": {"m1": 12, "odd": 0, "free": None},
    "next": [
        {"flavor": "m1", "reasons": [FULL, {**FULL, "rule": "ComputeFilter", "reason": "down", "hosts": 1}]},
        {"flavor": "odd", "reasons": [ODD]},
        {"flavor": "free", "reasons": []},
    ],
}


def lines(found: dict[str, Any]) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=110).print(capacity_table(found))
    return [" ".join(line.split()) for line in text.getvalue().splitlines()]


def test_each_flavor_has_its_number_and_reasons() -> None:
    assert lines(FOUND)[2:] == [
        "m1 12 Placement: VCPU: 2 hosts, cannot give 4 VCPU",
        "ComputeFilter: 1 host, down",
        "odd 0 request: no [such] guest",
        "free no limit",
    ]


@pytest.mark.parametrize("arguments", [["--hint", "x"], ["--nonsense"], ["--os-cloud", "no-such-cloud"]])
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["capacity", *arguments]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.count("\n") == 1
