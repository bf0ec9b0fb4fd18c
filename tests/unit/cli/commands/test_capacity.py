# SPDX-License-Identifier: Apache-2.0
import io

import pytest
from rich.console import Console
from rich.table import Table

from kilonova.cli.commands.capacity import capacity_table, division_table, mix_of, stranded_table
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


def lines_of(table: Table) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=110).print(table)
    return [" ".join(line.split()) for line in text.getvalue().splitlines()][2:]


def test_each_flavor_has_its_number_and_reasons() -> None:
    assert lines_of(capacity_table(FOUND)) == [
        "m1 12 Placement: VCPU: 2 hosts, cannot give 4 VCPU",
        "ComputeFilter: 1 host, down",
        "odd 0 request: no [such] guest",
        "free no limit",
    ]


def test_a_mix_shows_the_reasons_at_the_refused_flavor() -> None:
    found = {"fits": {"m1": 3, "m2": 1}, "next": [{"flavor": "m2", "reasons": [FULL]}]}
    assert lines_of(capacity_table(found)) == ["m1 3", "m2 1 Placement: VCPU: 2 hosts, cannot give 4 VCPU"]


def test_each_place_has_its_number_and_reasons() -> None:
    places = [
        {"zone": "east", "hosts": 3, "fits": 1, "reasons": [FULL]},
        {"zone": None, "hosts": 1, "fits": 0, "reasons": [ODD]},
    ]
    assert lines_of(division_table({"next": [{"flavor": "m1", "by": places}]}, "zone")) == [
        "m1 east 3 1 Placement: VCPU: 2 hosts, cannot give 4 VCPU",
        "m1 (none) 1 0 request: no [such] guest",
    ]


def test_stranded_resources_have_their_causes() -> None:
    causes = [{"rule": "Placement: MEMORY_MB", "amount": 2, "hosts": 1}, {"rule": "flavors", "amount": 1, "hosts": 2}]
    vcpu = {"capacity": 12, "free": 4, "stranded": 3, "share": 0.25, "causes": causes}
    assert lines_of(stranded_table({"VCPU": vcpu})) == [
        "VCPU 12 4 3 25.0% Placement: MEMORY_MB: 2 on 1 host",
        "flavors: 1 on 2 hosts",
    ]


def test_a_mix_has_flavors_with_shares() -> None:
    assert mix_of("m1.small=3,a=b=1") == [{"flavor": "m1.small", "share": 3}, {"flavor": "a=b", "share": 1}]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--hint", "x"],
        ["--mix", "m1"],
        ["--mix", "m1=0"],
        ["--mix", "=1"],
        ["--by", "rack"],
        ["--lose", "rack"],
        ["--lose", "0"],
        ["--lose", "host", "--by", "zone"],
        ["--nonsense"],
        ["--os-cloud", "no-such-cloud"],
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["capacity", *arguments]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.count("\n") == 1
