# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.commands.diff import print_diff
from kilonova.cli.main import main

OTHER = {
    "created_at": "2026-01-02T03:04:05.000006Z",
    "server": "s1",
    "from": "n1",
    "to": "n2",
    "reason": "few [odd] CPUs",
}
FOUND = {
    "decisions": 5,
    "counts": {"same": 1, "elsewhere": 2, "fails": 1, "fits": 0},
    "rules": [
        {"rule": "RamFilter", "elsewhere": 1, "fails": 1, "fits": 0},
        {"rule": "RAMWeigher", "elsewhere": 1, "fails": 0, "fits": 0},
    ],
    "undecided": [{"reason": "It is old.", "decisions": 1}],
    "notes": ["Only 5 decisions are stored."],
    "differences": [
        {**OTHER, "rule": "RAMWeigher", "effect": "prefers"},
        {**OTHER, "rule": "RamFilter", "effect": "allows"},
        {**OTHER, "rule": "RamFilter", "effect": "rejects", "to": None},
        {**OTHER, "rule": "request", "effect": "fails", "to": None},
        {**OTHER, "rule": "earlier", "effect": "follows"},
    ],
}


def test_the_differences_and_their_rules_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_diff(FOUND)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    for text in (
        "2026-01-02T03:04:05 s1 n1 n2 RAMWeigher prefers n2",
        "2026-01-02T03:04:05 s1 n1 n2 RamFilter no longer rejects n2",
        "2026-01-02T03:04:05 s1 n1 no host RamFilter rejects n1",
        "2026-01-02T03:04:05 s1 n1 no host request: few [odd] CPUs",
        "5 decisions: 1 same, 2 on another host, 1 without a host now, 0 with a host now",
        "RamFilter: 1 elsewhere, 1 fails",
        "1 could not be repeated: It is old.",
        "Only 5 decisions are stored.",
    ):
        assert text in lines


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "ram"],
        ["--weight", "RAMWeigher=many"],
        ["--aggregate", "rack"],
        ["--flavor", "m1:"],
        ["--last", "0"],
        ["--filter", "own:Filter"],
        ["--os-cloud", "no-such-cloud"],
        ["--config-file", "/no/such/file"],
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["diff", *arguments]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.count("\n") == 1
