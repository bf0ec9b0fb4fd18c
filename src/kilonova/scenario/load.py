# SPDX-License-Identifier: Apache-2.0
"""Strict loader of scenario files; every error names the file and the field."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import yaml

from kilonova.errors import ConfigurationError, InvalidRequest
from kilonova.model.ability import Ability
from kilonova.model.device_models import DEVICE_FAMILIES, trait_of
from kilonova.model.host import Capabilities
from kilonova.scenario.model import (
    DEFAULT_CAPABILITIES,
    PROJECTS,
    Scenario,
    ScenarioAggregate,
    ScenarioFlavor,
    ScenarioGroup,
    ScenarioImage,
    ScenarioServer,
    SimulatedCell,
    SimulatedHost,
    SimulatedPool,
    default_hosts,
    projects_named,
)

T = TypeVar("T")

_PARTS: Mapping[str, type[Any]] = {
    "aggregates": ScenarioAggregate,
    "flavors": ScenarioFlavor,
    "images": ScenarioImage,
    "groups": ScenarioGroup,
    "servers": ScenarioServer,
}
_HARDWARE: Mapping[str, type[Any]] = {"numa": SimulatedCell, "pci": SimulatedPool}
_POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


def load_scenario(path: Path) -> Scenario:
    """Read a scenario; relative folders in its ``python_path`` are relative to the folder of the scenario file.

    Raises: ConfigurationError naming the file and the field.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigurationError(f"Scenario {path}: {error}") from error
    if not isinstance(content, dict):
        raise ConfigurationError(f"Scenario {path}: the content must be a mapping.")
    scenario = scenario_of({"name": path.stem, **content}, f"Scenario {path}")
    folders = tuple(str((path.parent / folder).resolve()) for folder in scenario.python_path)
    for folder in folders:
        if not Path(folder).is_dir():
            raise ConfigurationError(f"Scenario {path}: python_path: folder {folder} does not exist.")
    return dataclasses.replace(scenario, python_path=folders)


def scenario_of(content: Mapping[str, Any], where: str) -> Scenario:
    """Build a scenario from decoded YAML. Raises: ConfigurationError."""
    rest = dict(content)
    values: dict[str, Any] = {"hosts": _hosts(rest.pop("hosts", 3), where)}
    for name, kind in _PARTS.items():
        items = rest.pop(name, None) or []
        if not isinstance(items, list):
            raise ConfigurationError(f"{where}: {name} must be a list.")
        values[name] = tuple(_record(kind, item, f"{where}: {name}[{index}]") for index, item in enumerate(items))
    scenario = _record(Scenario, {**rest, **values}, where)
    _check_names(scenario, where)
    _check_aggregates(scenario, where)
    _check_groups(scenario, where)
    for server in scenario.servers:
        _check_server(scenario, server, f"{where}: server {server.name}")
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
        for part, kind in _HARDWARE.items():
            if part in record:
                record[part] = _hardware(record[part], kind, f"{place}: {part}")
        if count is None:
            hosts.append(_checked(_record(SimulatedHost, record, place), place))
            continue
        if not isinstance(count, int) or isinstance(count, bool) or count < 0 or "node" in record:
            raise ConfigurationError(
                f"{place}: count must be a non-negative integer, and cannot be combined with node."
            )
        first = _checked(_record(SimulatedHost, {"name": "node", **record}, place), place)
        hosts += [dataclasses.replace(first, name=f"{first.name}{number}") for number in range(1, count + 1)]
    return tuple(hosts)


def _hardware(value: Any, kind: type[Any], where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise ConfigurationError(f"{where} must be a list.")
    return tuple(_record(kind, item, f"{where}[{index}]") for index, item in enumerate(value))


def _checked(host: SimulatedHost, where: str) -> SimulatedHost:
    """Return the host after checking its NUMA cells, PCI devices and models. Raises: ConfigurationError."""
    try:
        cells, pools = host.devices.cells, host.devices.pools
    except ValueError as error:
        raise ConfigurationError(f"{where}: numa: {error}.") from None
    cpus = [cpu for cell in cells for cpu in cell.cpuset | cell.pcpuset]
    if len(cpus) != len(set(cpus)):
        raise ConfigurationError(f"{where}: numa: a CPU is in two cells.")
    if unknown := {pool.numa_node for pool in pools} - {None, *(cell.id for cell in cells)}:
        raise ConfigurationError(f"{where}: pci: NUMA cell {min(filter(None, unknown), default=0)} does not exist.")
    if any(pool.total < 1 for pool in pools):
        raise ConfigurationError(f"{where}: pci: count must be at least 1.")
    _require_known(f"{where}: models", "image property", host.models, DEVICE_FAMILIES)
    for name, values in host.models.items():
        for value in values:
            if trait_of(name, value) is None:
                raise ConfigurationError(f"{where}: models: no trait exists for {name}={value}.")
    return host


def _capabilities(value: Any, where: str) -> Capabilities:
    changed = _record(Capabilities, value, f"{where}.capabilities")
    _require_known(f"{where}.capabilities: abilities", "ability", changed.abilities or (), [*Ability])
    return dataclasses.replace(DEFAULT_CAPABILITIES, **{name: getattr(changed, name) for name in value})


def _record(kind: type[T], value: Any, where: str) -> T:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{where} must be a mapping.")
    fields = {item.name: item for item in dataclasses.fields(kind)}  # type: ignore[arg-type]
    unknown = sorted(set(map(str, value)) - set(fields))
    if unknown:
        raise ConfigurationError(f"{where}: unknown field {unknown[0]!r}. Known fields: {', '.join(fields)}.")
    missing = [
        name
        for name, item in fields.items()
        if item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING and name not in value
    ]
    if missing:
        raise ConfigurationError(f"{where}: field {missing[0]!r} is missing.")
    hints = get_type_hints(kind)
    return kind(**{name: _value(hints[name], item, f"{where}: {name}") for name, item in value.items()})


def _value(hint: Any, value: Any, place: str) -> Any:
    """Return ``value`` converted to the type ``hint``. Raises: ConfigurationError."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any or (isinstance(hint, type) and dataclasses.is_dataclass(hint)):
        return value
    if origin is UnionType:
        return None if value is None else _value(next(each for each in inner if each is not NoneType), value, place)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise ConfigurationError(f"{place} must be a list.")
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        if len(kinds) != len(value):
            raise ConfigurationError(f"{place} must have {len(kinds)} items.")
        return tuple(_value(each, item, place) for each, item in zip(kinds, value, strict=True))
    if origin is not None:  # the remaining generic types are mappings
        if not isinstance(value, dict):
            raise ConfigurationError(f"{place} must be a mapping.")
        return {str(key): _value(inner[1], item, f"{place}.{key}") for key, item in value.items()}
    return _scalar(hint, value, place)


def _scalar(hint: Any, value: Any, place: str) -> Any:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is str and (is_number or isinstance(value, str | bool)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    if hint is float and is_number:
        return float(value)
    if hint is int and is_number and isinstance(value, int):
        return value
    kinds = {bool: "true or false", str: "a string", float: "a number", int: "an integer"}
    raise ConfigurationError(f"{place} must be {kinds[hint]}, not {value!r}.")


def _check_names(scenario: Scenario, where: str) -> None:
    for part in ("hosts", *_PARTS):
        names = [item.name for item in getattr(scenario, part)]
        if twice := {name for name in names if names.count(name) > 1} if len(names) != len(set(names)) else None:
            raise ConfigurationError(f"{where}: {part}: duplicate name {min(twice)!r}.")


def _check_aggregates(scenario: Scenario, where: str) -> None:
    hosts = {host.name for host in scenario.hosts}
    for aggregate in scenario.aggregates:
        place = f"{where}: aggregate {aggregate.name}"
        _require_known(place, "host", aggregate.hosts, hosts)
        for key, value in aggregate.metadata.items():
            _require_known(place, "project", projects_named(value), PROJECTS)
            _require_readable(place, key, value)


def _require_readable(place: str, key: str, value: str) -> None:
    """Raise ConfigurationError if metadata of an aggregate is an isolation rule with errors."""
    from kilonova.scheduler import isolation_rules  # noqa: PLC0415 - start-up time: brings NumPy

    try:
        if isolation_rules.is_rule_key(key):
            isolation_rules.parse_alternative(key, value)
    except InvalidRequest as error:
        raise ConfigurationError(f"{place}: {error.message}") from None


def _check_groups(scenario: Scenario, where: str) -> None:
    for group in scenario.groups:
        place = f"{where}: group {group.name}"
        _require_known(place, "policy", [group.policy], _POLICIES)
        _require_known(place, "project", [group.project], PROJECTS)
        if group.max_server_per_host is not None and group.policy != "anti-affinity":
            raise ConfigurationError(f"{place}: max_server_per_host is for anti-affinity only.")


def _check_server(scenario: Scenario, server: ScenarioServer, place: str) -> None:
    hosts = {host.name for host in scenario.hosts}
    groups = {group.name: group for group in scenario.groups}
    _require_known(place, "project", [server.project], PROJECTS)
    _require_known(place, "flavor", [server.flavor], {flavor.name for flavor in scenario.flavors})
    _require_known(place, "image", [server.image], {image.name for image in scenario.images})
    _require_known(place, "group", [server.group] if server.group else [], groups)
    _require_known(place, "host", [*server.expect, *filter(None, [server.target[1]])], hosts)
    if server.group and groups[server.group].project != server.project:
        raise ConfigurationError(
            f"{place}: group {server.group!r} is in project {groups[server.group].project!r}, not in the server's."
        )
    if server.count < 1:
        raise ConfigurationError(f"{place}: count must be at least 1.")
    if not set(server.uses) <= set(server.expect):
        raise ConfigurationError(f"{place}: every host of `uses` must also be in `expect`.")
    if server.refused_by and server.expect:
        raise ConfigurationError(f"{place}: refused_by and expect exclude each other.")


def _require_known(place: str, kind: str, names: Iterable[str], known: Iterable[str]) -> None:
    for name in names:
        if name not in known:
            choices: Sequence[str] = sorted(known)
            listed = f" Known: {', '.join(choices)}." if 0 < len(choices) <= 20 else ""
            raise ConfigurationError(f"{place}: unknown {kind} {name!r}.{listed}")
