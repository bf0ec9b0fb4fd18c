# SPDX-License-Identifier: Apache-2.0
"""Every scenario through the engine: its expectations hold, and its decisions equal the reviewed files.

After an intended change of placements, rewrite the files with ``WRITE_EXPECTED=1 make test`` and review the difference.
"""

import os
from pathlib import Path

import pytest

from kilonova.cli.scenarios.settings import play_with_settings
from kilonova.scenario.load import load_scenario
from kilonova.scenario.outcome import surprises
from kilonova.scenario.run import report

SCENARIOS = sorted((Path(__file__).parents[2] / "scenarios").glob("*.yaml"))
EXPECTED = Path(__file__).with_name("expected")


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_goes_as_it_expects_and_as_reviewed(path: Path) -> None:
    scenario = load_scenario(path)
    played = play_with_settings(scenario)
    assert surprises(scenario, {server.name: server.landing for server in played}) == ()
    story = report(scenario, played)
    reviewed = EXPECTED / f"{path.stem}.txt"
    if "WRITE_EXPECTED" in os.environ:
        reviewed.write_text(story)
    assert story == reviewed.read_text()


def test_no_reviewed_story_is_left_of_a_scenario_that_is_gone() -> None:
    assert {path.stem for path in EXPECTED.glob("*.txt")} == {path.stem for path in SCENARIOS}


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_a_scenario_has_a_first_line_that_says_what_it_shows(path: Path) -> None:
    about = load_scenario(path).about
    assert about.endswith(".")
    assert path.read_text().startswith("# SPDX-License-Identifier: Apache-2.0\n")
