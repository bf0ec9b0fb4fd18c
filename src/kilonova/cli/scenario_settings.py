# SPDX-License-Identifier: Apache-2.0
"""The settings of a control process that plays a scenario, and the scenario's play with exactly these."""

import sys
import tempfile
from dataclasses import replace

from kilonova import config
from kilonova.claims.outside_driver import OutsideDriver
from kilonova.cli.rules import Rules, load_rules
from kilonova.config import Settings
from kilonova.errors import ConfigurationError
from kilonova.model.request_spec import RequestSpec
from kilonova.scenario.model import AllocationRatios, Scenario
from kilonova.scenario.options import conf_text, with_defaults
from kilonova.scenario.run import Played, Surroundings, play
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.host_table import HostTable


def settings_of(scenario: Scenario) -> Settings:
    """Return the settings that ``kilonova up --scenario`` gives its control process. Raises: ConfigurationError."""
    return _settings_and_rules(scenario)[0]


def _settings_and_rules(scenario: Scenario) -> tuple[Settings, Rules]:
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as file:
        file.write(conf_text(with_defaults({"database": {"connection": "sqlite://"}}, scenario.options)))
        file.flush()
        settings = config.load([file.name])
        import_from(scenario)
        rules = load_rules(settings)  # which makes the options of plug-ins known
    require_known_options(scenario, settings)
    return settings, rules


def require_known_options(scenario: Scenario, settings: Settings) -> None:
    """Refuse options that nothing reads. Raises: ConfigurationError naming one."""
    known = config.public_options(settings.conf)
    for group, options in scenario.options.items():
        for name in options:
            if name not in known.get(group, {}):
                raise ConfigurationError(f"Scenario {scenario.name}: options: there is no option [{group}] {name}.")


def ratios_of(settings: Settings) -> AllocationRatios:
    """Return what simulated hosts report to Placement beside their size."""
    compute = settings.compute
    return AllocationRatios(
        cpu=compute.cpu_allocation_ratio or compute.initial_cpu_allocation_ratio,
        memory=compute.ram_allocation_ratio or compute.initial_ram_allocation_ratio,
        disk=compute.disk_allocation_ratio or compute.initial_disk_allocation_ratio,
        reserved_memory_mib=compute.reserved_host_memory_mib,
    )


def play_with_settings(scenario: Scenario) -> tuple[Played, ...]:
    """Play a scenario through the engine that its options describe. Raises: ConfigurationError."""
    settings, rules = _settings_and_rules(scenario)
    surroundings = Surroundings(
        ratios=ratios_of(settings),
        max_attempts=settings.scheduler.max_attempts,
        default_schedule_zone=settings.compute.default_schedule_zone,
    )
    decider = rules.engine if rules.driver is None else DriverAtPlay(rules.driver)
    return play(scenario, decider, surroundings)


class DriverAtPlay:
    """A scheduler driver in the place of the engine: asked for one server at a time."""

    def __init__(self, driver: OutsideDriver) -> None:
        self._driver = driver

    def decide(self, hosts: HostTable, spec: RequestSpec, *, limit: int) -> Decision:
        """Return what the driver chooses for one server of the request."""
        one = replace(spec, instance_uuids=spec.instance_uuids[:1])
        return self._driver.answer(one, hosts).decide(hosts, one, limit=limit)


def import_from(scenario: Scenario) -> None:
    """Let this process import the modules that the scenario's options name."""
    sys.path += [folder for folder in scenario.python_path if folder not in sys.path]
