# SPDX-License-Identifier: Apache-2.0
"""Read scenario files: strict, naming the place of every mistake."""

import dataclasses
from pathlib import Path
from typing import Any, TypeVar

import yaml

from kilonova.errors import ConfigurationError
from kilonova.model.host import Capabilities
from kilonova.scenario.model import (
    DEFAULT_CAPABILITIES,
    Scenario,
    ScenarioAggregate,
    ScenarioFlavor,
    ScenarioGroup,
    ScenarioImage,
    ScenarioServer,
    SimulatedHost,
    default_hosts,
)

T = TypeVar("T")
FOLDER = Path(__file__).resolve().parents[3] / "scenarios"


def find_scenario(name: str) -> Path:
    """Return the file of a scenario given by name or by path. Raises: ConfigurationError."""
    for path in (Path(name), FOLDER / f"{name}.yaml"):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.yaml"))) or "none"
    raise ConfigurationError(f"There is no scenario {name!r}. Known ones: {known}.")


def load_scenario(path: Path) -> Scenario:
    """Read a scenario. Raises: ConfigurationError naming the file and the field."""
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ConfigurationError(f"Scenario {path}: {error}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"Scenario {path}: a mapping is expected.")
    return scenario_of({"name": path.stem, **content}, str(path))


def scenario_of(content: dict[str, Any], where: str) -> Scenario:
    """Build a scenario from decoded YAML."""
    content = dict(content)
    hosts = content.pop("hosts", 3)
    parts = {
        "aggregates": ScenarioAggregate,
        "flavors": ScenarioFlavor,
        "images": ScenarioImage,
        "groups": ScenarioGroup,
        "servers": ScenarioServer,
    }
    values: dict[str, Any] = {"hosts": _hosts(hosts, where)}
    for name, kind in parts.items():
        values[name] = tuple(
            _record(kind, item, f"{where}: {name}[{index}]") for index, item in enumerate(content.pop(name, None) or ())
        )
    scenario = _record(Scenario, {**content, **values}, where)
    _check_references(scenario, where)
    return scenario


def _hosts(value: Any, where: str) -> tuple[SimulatedHost, ...]:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return default_hosts(value)
    if not isinstance(value, list):
        raise ConfigurationError(f"{where}: hosts must be a number or a list.")
    hosts: list[SimulatedHost] = []
    for index, item in enumerate(value):
        place = f"{where}: hosts[{index}]"
        record = dict(item) if isinstance(item, dict) else {"name": item}
        count = record.pop("count", None)
        if "capabilities" in record:
            record["capabilities"] = _capabilities(record["capabilities"], place)
        if count is None:
            hosts.append(_record(SimulatedHost, record, place))
        else:
            prefix = record.pop("name", "node")
            hosts += [_record(SimulatedHost, {**record, "name": f"{prefix}{n}"}, place) for n in range(1, count + 1)]
    names = [host.name for host in hosts]
    if len(set(names)) != len(names):
        raise ConfigurationError(f"{where}: hosts: two hosts have the same name.")
    return tuple(hosts)


def _capabilities(value: Any, where: str) -> Capabilities:
    record = dict(value)
    if "supported_instances" in record:
        record["supported_instances"] = tuple(tuple(triple) for triple in record["supported_instances"])
    changed: Capabilities = _record(Capabilities, record, f"{where}.capabilities")
    return dataclasses.replace(DEFAULT_CAPABILITIES, **{name: getattr(changed, name) for name in record})


def _record(kind: type[T], value: Any, where: str) -> T:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where}: a mapping is expected.")
    fields = {item.name: item for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(value) - set(fields))
    if unknown:
        raise ConfigurationError(f"{where}: unknown field {unknown[0]!r}. Known ones: {', '.join(fields)}.")
    missing = [
        name
        for name, item in fields.items()
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING and name not in value
    ]
    if missing:
        raise ConfigurationError(f"{where}: field {missing[0]!r} is missing.")
    plain = {name: tuple(item) if isinstance(item, list) else item for name, item in value.items()}
    for name, item in plain.items():
        wanted = fields[name].type
        if wanted in {int, float} and (isinstance(item, bool) or not isinstance(item, int | float)):
            raise ConfigurationError(f"{where}: {name} must be a number, not {item!r}.")
        if name in {"metadata", "properties", "extra_specs", "hints"}:
            plain[name] = {str(key): _text(entry) for key, entry in item.items()}
        if name == "id" and item is not None:
            plain[name] = str(item)
    return kind(**plain)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_references(scenario: Scenario, where: str) -> None:
    flavors = {flavor.name for flavor in scenario.flavors}
    images = {image.name for image in scenario.images}
    groups = {group.name for group in scenario.groups}
    hosts = {host.name for host in scenario.hosts}
    for aggregate in scenario.aggregates:
        for host in aggregate.hosts:
            if host not in hosts:
                raise ConfigurationError(f"{where}: aggregate {aggregate.name}: there is no host {host!r}.")
    for server in scenario.servers:
        for kind, name, known in (("flavor", server.flavor, flavors), ("image", server.image, images)):
            if name not in known:
                raise ConfigurationError(f"{where}: server {server.name}: there is no {kind} {name!r}.")
        if server.group is not None and server.group not in groups:
            raise ConfigurationError(f"{where}: server {server.name}: there is no group {server.group!r}.")
        for host in server.expect:
            if host not in hosts:
                raise ConfigurationError(f"{where}: server {server.name}: there is no host {host!r}.")
