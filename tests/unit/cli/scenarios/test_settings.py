# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.cli.scenarios.settings import require_known_options, settings_of
from kilonova.errors import ConfigurationError
from kilonova.scenario.model import Scenario


def scenario(**options: dict[str, str]) -> Scenario:
    return Scenario("mine", options=options)


def test_options_of_a_scenario_are_read_like_those_of_a_file() -> None:
    settings = settings_of(scenario(scheduler={"max_attempts": "7"}))
    assert settings.scheduler.max_attempts == 7


def test_an_option_that_nothing_reads_is_refused_unless_it_may_be_of_a_plug_in() -> None:
    with pytest.raises(ConfigurationError, match=r"option \[scheduler\] max_att\.$"):
        settings_of(scenario(scheduler={"max_att": "7"}))
    with pytest.raises(ConfigurationError, match=r"\[RackFilter\] width"):
        settings_of(scenario(RackFilter={"width": "7"}))
    enabled = {"available_filters": "racks.RackFilter", "enabled_filters": "ComputeFilter"}
    plugged = scenario(filter_scheduler=enabled, RackFilter={"width": "7"})
    settings = settings_of(plugged)
    with pytest.raises(ConfigurationError, match=r"\[RackFilter\] width"):
        require_known_options(plugged, settings)
