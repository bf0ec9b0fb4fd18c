# SPDX-License-Identifier: Apache-2.0
import io
from typing import Any

from rich.console import Console

from kilonova.cli.cloud.plan_tables import moves_table, stays_table, totals_text

MOVE = {"server": "s1", "name": "web", "from": "a", "to": "b", "wave": 0, "live": True, "gib": 1.5}
STAY = {
    "server": "s2",
    "name": "",
    "host": "a",
    "reason": "no host can take the server",
    "rules": [{"rule": "Placement: VCPU", "reason": "cannot give 4 VCPU", "hosts": 1}],
    "nearest_miss": [{"changes": [{"text": "free 2 VCPU on b"}]}],
}
FOUND = {"seq": 7, "moves": [MOVE], "stays": [STAY], "waves": 1, "gib": 1.5}


def lines(table: Any) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=110).print(table)
    return [" ".join(line.split()) for line in text.getvalue().splitlines()][2:]


def test_each_move_has_a_row() -> None:
    assert lines(moves_table(FOUND)) == ["0 s1 (web) a b live 1.5"]


def test_a_stay_has_its_reasons_and_the_smallest_change() -> None:
    assert lines(stays_table(FOUND)) == [
        "s2 a no host can take the server",
        "Placement: VCPU: 1 host, cannot give 4 VCPU",
        "It would move if free 2 VCPU on b",
    ]


def test_totals() -> None:
    assert totals_text(FOUND) == "1 move in 1 wave, 1.5 GiB, after change 7 of the cloud. Nothing was moved."
