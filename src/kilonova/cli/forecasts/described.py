# SPDX-License-Identifier: Apache-2.0
"""Forecasts of described clouds: the file of a scenario, with the cloud in it or in a scenario of its own."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kilonova.cli.forecasts.lines import at_line, load_yaml
from kilonova.cli.forecasts.policies import load_policy
from kilonova.cli.forecasts.traces import load_trace
from kilonova.cli.scenarios.file import find_scenario
from kilonova.cli.scenarios.settings import import_from, settings_and_rules
from kilonova.cli.wiring.agent_settings import ratios_of
from kilonova.config.settings import Settings
from kilonova.errors import ConfigurationError
from kilonova.model.aggregate import ZONE_KEY
from kilonova.model.server_group import GroupView
from kilonova.planning.forecast.forecast import Beginning, Forecast, forecast
from kilonova.planning.forecast.run import Policy
from kilonova.planning.forecast.scenario import Scenario, ScenarioError, scenario_of
from kilonova.planning.forecast.server_kinds import Catalog, KindName, Kinds, ServerKind
from kilonova.planning.forecast.virtual_cloud import always_up
from kilonova.planning.forecast.workload import NONE, Servers
from kilonova.records import dataclass, replace
from kilonova.scenario.load import load_scenario
from kilonova.scenario.load import scenario_of as cloud_of
from kilonova.scenario.model import PROJECTS, with_project_ids
from kilonova.scenario.model import Scenario as DescribedCloud
from kilonova.scenario.options import with_defaults
from kilonova.scenario.run import (
    Surroundings,
    described_flavor,
    described_hosts,
    described_image,
    described_request,
)
from kilonova.scheduler.devices.pci_request import read_aliases
from kilonova.scheduler.host_table import HostTable

_NO_HOSTS = "the described cloud has no hosts"


@dataclass(frozen=True, slots=True)
class ForecastFile:
    """A scenario with its file. ``text``: its content, for the lines of errors. ``content``: the same, decoded."""

    path: Path
    text: str
    scenario: Scenario
    content: Mapping[str, Any]

    def placed(self, error: ScenarioError) -> ConfigurationError:
        """Return an error of a field with the file and the line."""
        return at_line(self.path, self.text, error)


def load_forecast(path: Path) -> ForecastFile:
    """Read a scenario of a forecast. Raises: ConfigurationError naming the file, the line and the field."""
    content, text = load_yaml(path)
    try:
        return ForecastFile(path, text, scenario_of(content), content)
    except ScenarioError as error:
        raise at_line(path, text, error) from None


def run_described(
    file: ForecastFile,
    policies: Sequence[Path],
    progress: Callable[[float, str], None] = lambda _done, _text: None,
    clock_ns: Callable[[], int] = time.thread_time_ns,
) -> Forecast:
    """Forecast a described cloud. ``policies``: files of further policies.

    Raises: ConfigurationError, InvalidRequest, DecisionsDiffer, RuleFailed.
    """
    cloud = described_cloud(file)
    settings, _ = settings_and_rules(cloud)
    try:
        beginning = _beginning(file, cloud, settings)
        tried = [_policy(file.path.stem, cloud), *(_policy_of(each, cloud) for each in policies)]
        names = [each.name for each in tried]
        if twice := {name for name in names if names.count(name) > 1}:
            raise ConfigurationError(f"two policies have the name {min(twice)!r}")
        return forecast(
            file.scenario,
            beginning,
            tried,
            clock_ns=clock_ns,
            progress=progress,
        )
    except ScenarioError as error:
        raise file.placed(error) from None


def described_cloud(file: ForecastFile) -> DescribedCloud:
    """Return the cloud of a scenario. Raises: ConfigurationError."""
    given = file.scenario.cloud
    if isinstance(given, str):
        beside = file.path.parent / given
        try:
            found = load_scenario(beside if beside.is_file() else find_scenario(given))
        except ConfigurationError as error:
            raise file.placed(ScenarioError("cloud", error.message)) from None
    elif isinstance(given, dict):
        try:
            found = cloud_of({"name": file.path.stem, **given}, "cloud")
        except ConfigurationError as error:
            field, _, text = error.message.removeprefix("cloud: ").partition(": ")
            placed = file.placed(ScenarioError(f"cloud.{field}", text))
            raise placed from None
    else:
        raise file.placed(ScenarioError("cloud", "must be the name or file of a scenario, or a mapping"))
    if not found.hosts:
        raise file.placed(ScenarioError("cloud", _NO_HOSTS))
    return with_project_ids(found, {project: project for project in PROJECTS})


def _beginning(file: ForecastFile, cloud: DescribedCloud, settings: Settings) -> Beginning:
    aliases = read_aliases(settings.scheduler.pci_alias)
    table = described_hosts(cloud, ratios_of(settings.compute))
    hosts = always_up(table, settings.scheduler.service_down_time)
    catalog = Catalog(
        flavors={each.name: described_flavor(each) for each in cloud.flavors},
        images={each.name: described_image(each) for each in cloud.images},
        zones=_zones(hosts) | {settings.compute.default_availability_zone},
        default_zone=settings.compute.default_schedule_zone,
        aliases=aliases,
    )
    kinds = Kinds(catalog)
    groups, first = _first_servers(cloud, kinds, settings)
    parts = [] if first is None else [first]
    for number, name in enumerate(file.scenario.traces):
        path = file.path.parent / name
        if not path.is_file():
            raise ScenarioError(f"traces[{number}]", f"file {path} does not exist")
        parts.append(load_trace(path, kinds))
    return Beginning(hosts=hosts, kinds=kinds, traces=parts, groups=groups)


def _zones(hosts: HostTable) -> frozenset[str]:
    return frozenset(each.metadata[ZONE_KEY] for each in hosts.aggregates.aggregates if ZONE_KEY in each.metadata)


def _first_servers(
    cloud: DescribedCloud, kinds: Kinds, settings: Settings
) -> tuple[tuple[GroupView, ...], Servers | None]:
    """Return the groups and the servers of the described cloud; the servers arrive at time 0 and are never deleted."""
    around = Surroundings(default_schedule_zone=settings.compute.default_schedule_zone)
    numbers: list[int] = []
    groups: list[int] = []
    places = {each.name: number for number, each in enumerate(cloud.groups)}
    for asked in cloud.servers:
        spec = replace(described_request(cloud, asked, around), instance_uuids=())
        name = KindName(asked.flavor, asked.image, asked.project, asked.zone or "", tuple(asked.hints.items()))
        number = kinds.add(ServerKind.of(name, spec, kinds.catalog.aliases))
        numbers += [number] * asked.count
        groups += [NONE if asked.group is None else places[asked.group]] * asked.count
    views = tuple(GroupView(each.name, each.policy, each.max_server_per_host or 1) for each in cloud.groups)
    if not numbers:
        return views, None
    count = len(numbers)
    made = Servers.of(np.zeros(count), np.full(count, np.inf), np.array(numbers, dtype=np.int64))
    made.group[:] = groups
    return views, made


def _policy_of(path: Path, cloud: DescribedCloud) -> Policy:
    """Return the policy of a file: the options of the described cloud, changed. Raises: ConfigurationError."""
    given = load_policy(path)
    return _policy(given.name, replace(cloud, options=with_defaults(given.options, cloud.options)))


def _policy(name: str, cloud: DescribedCloud) -> Policy:
    import_from(cloud)
    settings, rules = settings_and_rules(cloud)
    if rules.driver is not None:
        raise ConfigurationError(f"policy {name}: a forecast needs the filter scheduler, not [scheduler] driver")
    return Policy(name=name, engine=rules.engine, resize_in_place=settings.compute.allow_resize_to_same_host)
