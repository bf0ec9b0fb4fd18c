# SPDX-License-Identifier: Apache-2.0
"""`kilonova demo`: bad input, and servers in unexpected places."""

import pytest
from rich.console import Console

from kilonova.cli.main import main
from kilonova.cli.scenarios.player import ScenarioPlayer
from support.scenario_cloud import FakeCloud, scenario, server


@pytest.mark.parametrize(
    "arguments", [["nowhere"], [], ["zones", "--data", "missing"], ["zones", "--fast"], ["ip-scheduler"]]
)
def test_bad_input_is_one_line_and_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("kilonova: ")
    assert err.count("\n") == 1


def test_a_table_of_unexpected_places_is_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    from kilonova.cli.commands.demo import tell

    cloud = FakeCloud(servers={"admin": [server("web-1"), server("web-2")], "demo": [server("db")]})
    console = Console(width=120)
    assert tell(scenario(), ScenarioPlayer(scenario(), cloud.seats()), console) == 1
    assert "Not as expected: db is on node1, and should be refused." in capsys.readouterr().out
