# SPDX-License-Identifier: Apache-2.0
"""Effect of image_metadata_prefilter on failed spawns in the mixed cloud."""

from dataclasses import replace
from pathlib import Path

import pytest

from kilonova.cli.scenarios.settings import play_with_settings
from kilonova.scenario.load import load_scenario
from kilonova.scenario.run import Played

PATH = Path(__file__).parents[2] / "scenarios" / "image-models.yaml"


def play(*, prefilter: bool) -> dict[str, Played]:
    scenario = load_scenario(PATH)
    options = {"scheduler": {"image_metadata_prefilter": prefilter}}
    return {server.name: server for server in play_with_settings(replace(scenario, options=options))}


def test_with_the_prefilter_no_spawn_fails() -> None:
    played = play(prefilter=True)
    assert [name for name, server in played.items() if server.failed_on] == []
    assert [name for name, server in played.items() if server.landing.host is None] == ["stranded"]
    assert played["stranded"].landing.refused_by == "transform_image_metadata"


@pytest.mark.parametrize("prefix", ["appliance", "modern"])
def test_without_it_servers_are_scheduled_anew_after_spawns_that_fail(prefix: str) -> None:
    played = [server for name, server in play(prefilter=False).items() if name.startswith(prefix)]
    assert sum(len(server.failed_on) for server in played) >= 3
    for server in played:
        assert len(server.decisions) == min(3, len(server.failed_on) + 1)
        assert not {host for host in server.failed_on if host.startswith("old")} or prefix == "modern"


def test_without_it_a_server_may_run_out_of_attempts() -> None:
    played = play(prefilter=False)
    assert (len(played["appliance-1"].failed_on), played["appliance-1"].landing.refused_by) == (3, "spawn")
