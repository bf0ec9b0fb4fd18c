# SPDX-License-Identifier: Apache-2.0
"""The settings of a control process that plays a scenario, and the scenario's play with exactly these."""

import sys
import tempfile

from kilonova import config
from kilonova.cli.rules import build_engine
from kilonova.config import Settings
from kilonova.errors import ConfigurationError
from kilonova.scenario.model import AllocationRatios, Scenario
from kilonova.scenario.options import conf_text, with_defaults
from kilonova.scenario.run import Played, Surroundings, play
from kilonova.scheduler.pci_request import read_aliases


def settings_of(scenario: Scenario) -> Settings:
    """Return the settings that ``kilonova up --scenario`` gives its control process. Raises: ConfigurationError."""
    with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="utf-8") as file:
        file.write(conf_text(with_defaults({"database": {"connection": "sqlite://"}}, scenario.options)))
        file.flush()
        settings = config.load([file.name])
    require_known_options(scenario, settings)
    return settings


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
    settings = settings_of(scenario)
    import_from(scenario)
    surroundings = Surroundings(
        ratios=ratios_of(settings),
        max_attempts=settings.scheduler.max_attempts,
        default_schedule_zone=settings.compute.default_schedule_zone,
        aliases=read_aliases(settings.scheduler.pci_alias),
    )
    return play(scenario, build_engine(settings.scheduler), surroundings)


def import_from(scenario: Scenario) -> None:
    """Let this process import the modules that the scenario's options name."""
    sys.path += [folder for folder in scenario.python_path if folder not in sys.path]
