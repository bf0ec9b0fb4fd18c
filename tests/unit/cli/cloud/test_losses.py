# SPDX-License-Identifier: Apache-2.0
import io
from typing import Any

import pytest
from rich.console import Console

from kilonova.cli.cloud.losses import lose_of, losses_table, summary
from kilonova.errors import InvalidRequest

STAYS = [{"server": "u1", "name": "db", "reasons": [{"rule": "Placement: VCPU", "reason": "full", "hosts": 2}]}]
LOSS = {"hosts": ["node1"], "servers": 3, "left_over": 1, "stays": STAYS}


def lines_of(found: dict[str, Any]) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=110).print(losses_table(found))
    return [" ".join(line.split()) for line in text.getvalue().splitlines()][2:]


def test_hosts_whose_servers_do_not_fit() -> None:
    assert lines_of({"lose": "host", "losses": [LOSS]}) == ["node1 3 1 db", "Placement: VCPU: 2 hosts, full"]


def test_each_zone_has_a_row() -> None:
    zones = [
        {"zone": "east", "zone_hosts": 5, "lost": 2, "survives": True, "worst": None},
        {"zone": "west", "zone_hosts": 3, "lost": 2, "survives": False, "worst": LOSS},
        {"zone": "nova", "zone_hosts": 9, "lost": 2, "survives": None, "worst": {**LOSS, "left_over": 0, "stays": []}},
    ]
    assert lines_of({"lose": 2, "losses": zones}) == [
        "east 2 of 5 hosts any 0",
        "west 2 of 3 hosts 3 1 db",
        "Placement: VCPU: 2 hosts, full",
        "nova 2 of 9 hosts 3 0 so far",
    ]


@pytest.mark.parametrize(("survives", "start"), [(True, "All"), (False, "Not all servers"), (None, "Not all sets")])
def test_the_verdict(survives: bool | None, start: str) -> None:
    assert summary({"survives": survives, "seq": 7}).startswith(start)


def test_what_can_be_lost() -> None:
    assert [lose_of("host"), lose_of("zone"), lose_of("3")] == ["host", "zone", 3]
    with pytest.raises(InvalidRequest):
        lose_of("-1")
