# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.commands.preview import print_preview
from kilonova.cli.main import main

SERVER = {"server": "s1", "name": "web", "host": "n1", "rule": "isolation", "reason": "reserved for [others]"}
REQUESTS = {
    "decisions": 2,
    "counts": {"same": 2, "elsewhere": 0, "fails": 0, "fits": 0},
    **{name: [] for name in ("rules", "undecided", "notes", "differences")},
}


def test_servers_and_requests_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    print_preview({"servers": [SERVER], "violations": 1, "days": 7, "requests": REQUESTS})
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "s1 web n1 isolation: reserved for [others]" in lines
    assert "1 servers would violate a rule on their present hosts." in lines
    assert "2 decisions: 2 same, 0 on another host, 0 without a host now, 0 with a host now" in lines


@pytest.mark.parametrize(
    "arguments",
    [
        ["aggregate", "rack"],
        ["aggregate", "rack", "--set", "key"],
        ["aggregate", "rack", "--unset", "key", "--days", "-1"],
        ["host", "node1"],
        ["host", "node1", "--disable", "--enable"],
        ["host", "node1", "--disable", "--os-cloud", "no-such-cloud"],
    ],
)
def test_bad_input_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    assert main(["preview", *arguments]) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.count("\n") == 1
