# SPDX-License-Identifier: Apache-2.0
"""Settings of a control process for a scenario, and a function that plays the scenario with these settings."""

import sys
import tempfile
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace

from kilonova.claims.outside_driver import OutsideDriver
from kilonova.cli.up.embedded_rules import rule_options
from kilonova.cli.wiring.agent_settings import ratios_of
from kilonova.cli.wiring.rules import Rules, load_rules
from kilonova.config.configuration import public_options
from kilonova.config.load import load_settings
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError
from kilonova.model.request_spec import RequestSpec
from kilonova.scenario.model import Scenario
from kilonova.scenario.options import conf_text, with_defaults
from kilonova.scenario.run import Played, Surroundings, play
from kilonova.scheduler.decision import Decision
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.engine.engine import Engine
from kilonova.scheduler.host_table import HostTable
from kilonova.scheduler.settings import SchedulerConfig


def settings_of(scenario: Scenario) -> Settings:
    """Return the settings that the control process of ``kilonova up --scenario`` has. Raises: ConfigurationError."""
    with _file_of(scenario) as file:
        settings = load_settings([file])
    require_known_options(scenario, settings, besides=_sections_of_plug_ins(settings.scheduler))
    return settings


def settings_and_rules(scenario: Scenario) -> tuple[Settings, Rules]:
    """Return the settings of a scenario, and the rules that they select. Raises: ConfigurationError."""
    import_from(scenario)
    with _file_of(scenario) as file:
        settings = load_settings([file])
        rules = load_rules(settings)
    require_known_options(scenario, settings)
    return settings, rules


@contextmanager
def _file_of(scenario: Scenario) -> Iterator[str]:
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as file:
        sections = with_defaults({"database": {"connection": "sqlite://"}}, scenario.options)
        file.write(conf_text(with_defaults(sections, rule_options(scenario.options))))
        file.flush()
        yield file.name


def require_known_options(scenario: Scenario, settings: Settings, *, besides: AbstractSet[str] = frozenset()) -> None:
    """Raise ConfigurationError for an option of the scenario that does not exist.

    ``besides``: sections of plug-ins, whose options are unknown before the plug-ins are loaded.
    """
    known = public_options(settings.conf)
    for group, options in scenario.options.items():
        for name in options:
            if name not in known.get(group, {}) and (group in known or group not in besides):
                raise ConfigurationError(f"Scenario {scenario.name}: options: unknown option [{group}] {name}.")


def _sections_of_plug_ins(scheduler: SchedulerConfig) -> frozenset[str]:
    """Return the sections of plug-ins: the class name at the end of each dotted path in the scheduler's options."""
    many = (scheduler.available_filters, scheduler.enabled_filters, scheduler.weight_classes, scheduler.request_filters)
    paths = [*(path for paths in many for path in paths), scheduler.driver]
    return frozenset(path.strip().rpartition(".")[2] for path in paths)


def play_with_settings(scenario: Scenario) -> tuple[Played, ...]:
    """Play a scenario with the scheduling rules and the driver that its options select. Raises: ConfigurationError."""
    settings, rules = settings_and_rules(scenario)
    surroundings = Surroundings(
        ratios=ratios_of(settings.compute),
        max_attempts=settings.scheduler.max_attempts,
        default_schedule_zone=settings.compute.default_schedule_zone,
        aliases=read_aliases(settings.scheduler.pci_alias),
    )
    decider = rules.engine if rules.driver is None else DriverAtPlay(rules.driver, rules.engine)
    return play(scenario, decider, surroundings)


class DriverAtPlay:
    """Adapter by which an external scheduler driver decides in a played scenario, for one server at a time."""

    def __init__(self, driver: OutsideDriver, engine: Engine) -> None:
        self._driver = driver
        self.allocations = engine.allocations

    def decide(self, hosts: HostTable, spec: RequestSpec, *, limit: int) -> Decision:
        """Return the driver's choice for one server of the request."""
        one = replace(spec, instance_uuids=spec.instance_uuids[:1])
        del limit  # an external driver returns only one host for a server
        return self._driver.answer(one, hosts).decide(hosts)


def import_from(scenario: Scenario) -> None:
    """Add the scenario's folders to ``sys.path``, so that modules named in its options can be imported."""
    sys.path += [folder for folder in scenario.python_path if folder not in sys.path]
