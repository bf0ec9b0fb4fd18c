# SPDX-License-Identifier: Apache-2.0
"""ComputeCapabilitiesFilter: hosts whose capabilities match the flavor's extra specs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kilonova.model.host import Capabilities
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.extra_specs import match, numeric
from kilonova.scheduler.host_attributes import COLUMNS, Column
from kilonova.scheduler.host_table import ALL_ROWS, BoolArray, HostTable
from kilonova.scheduler.nova_compat.host_state import HostState
from kilonova.scheduler.reads import Elsewhere, Keys, Reads

SCOPE = "capabilities"
_MAXPHYSADDR = "hw:maxphysaddr_bits"
_OF_PROFILE = frozenset({"hypervisor_type", "hypervisor_version", "cpu_info", "supported_instances"})
_MISSING = object()
#: Numeric host attributes as columns, including the counts that Nova keeps in ``stats``.
_NUMBERS: Mapping[str, Column] = {**COLUMNS, "io_workload": COLUMNS["num_io_ops"]}

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComputeCapabilitiesFilter:
    """Keep hosts whose capabilities match the flavor's extra specs.

    Two kinds of extra specs are tested: those with scope ``capabilities:``, and those without scope that name a host
    attribute.
    The key after the scope is a path of attributes, ``stats`` and dict keys; a text on the path is parsed as JSON.
    The value is converted to text before it is compared, so ``<in>`` on a list searches the printed list. A host
    without the capability fails if the extra spec has a scope, and passes if it has none.

    Static capabilities are tested once for all hosts with equal capabilities. Numbers that change with usage are
    compared as columns of the host table.

    Source: spec SCHEDULER §3 #3.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(
        extra_specs=Keys(names=frozenset({_MAXPHYSADDR}), prefixes=(f"{SCOPE}:",), elsewhere=(Elsewhere.HOST_FACTS,))
    )
    reason: str = "a capability does not match the flavor's extra specs"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        passed = hosts.all_hosts
        by_profile: list[tuple[Path, bool, str]] = []
        for path, scoped, requirement in _relevant(spec.flavor.extra_specs):
            name = path[0]
            if name in _NUMBERS:
                passed = passed & _column_matches(_NUMBERS[name](hosts, ALL_ROWS), path[1:], requirement)
            elif name not in _OF_PROFILE and not name.startswith("_") and hasattr(HostState, name):
                passed = passed & _each_host_matches(hosts, path, requirement)
            else:
                by_profile.append((path, scoped, requirement))
        if by_profile:
            passed = passed & _profiles_match(hosts, tuple(by_profile))
        return passed


def _relevant(extra_specs: Mapping[str, str]) -> list[tuple[Path, bool, str]]:
    """Return (path, whether the key has a scope, requirement) of each extra spec that can refer to a capability."""
    found: list[tuple[Path, bool, str]] = []
    for key, requirement in extra_specs.items():
        if key == _MAXPHYSADDR:
            found.append((("cpu_info", "maxphysaddr", "bits"), True, f">= {requirement}"))
            continue
        words = tuple(key.split(":"))
        if len(words) == 1:
            found.append((words, False, requirement))
        elif words[0] == SCOPE:
            found.append((words[1:], True, requirement))
    return found


def _profiles_match(hosts: HostTable, requirements: tuple[tuple[Path, bool, str], ...]) -> BoolArray:
    def verdicts() -> BoolArray:
        each = np.array([_profile_matches(profile, requirements) for profile in hosts.profiles], dtype=np.bool_)
        return each[hosts.profile]

    return hosts.memo.get((ComputeCapabilitiesFilter, requirements), verdicts)


def host_facts(hosts: HostTable) -> frozenset[str]:
    """Return the host attributes that extra specs without scope can name."""
    own = {name for profile in hosts.profiles for name in profile.extra if ":" not in name}
    attributes = {name for name in dir(HostState) if not name.startswith("_")}
    return frozenset({*own, *attributes, *_NUMBERS, *_OF_PROFILE})


def offered_values(hosts: HostTable, key: str) -> tuple[str, ...]:
    """Return the values that hosts report for the static capability of an extra spec key."""
    found: dict[str, None] = {}
    for path, _, _ in _relevant({key: ""}):
        for profile in hosts.profiles:
            start = getattr(profile, path[0]) if path[0] in _OF_PROFILE else profile.extra.get(path[0], _MISSING)
            value = _walk(start, path[1:]) if start is not _MISSING else _MISSING
            if value is not _MISSING and (text := _text(value)) is not None:
                found[text] = None
    return tuple(found)


def _profile_matches(profile: Capabilities, requirements: Sequence[tuple[Path, bool, str]]) -> bool:
    for path, scoped, requirement in requirements:
        name = path[0]
        start = getattr(profile, name) if name in _OF_PROFILE else profile.extra.get(name, _MISSING)
        if start is _MISSING and not scoped:
            continue
        value = _walk(start, path[1:])
        if value is _MISSING or not match(_text(value), requirement):
            return False
    return True


def _column_matches(values: NDArray[Any], rest: Path, requirement: str) -> BoolArray | bool:
    if rest:
        return False  # the path continues after the name of a number, but a number has no members
    if (comparison := numeric(requirement)) is not None:
        compare, operand = comparison
        result: BoolArray = np.asarray(compare(values, operand))  # type: ignore[arg-type]
        return result
    distinct, inverse = np.unique(values, return_inverse=True)
    verdicts: BoolArray = np.array([match(str(value), requirement) for value in distinct.tolist()], dtype=np.bool_)
    return verdicts[inverse]


def _each_host_matches(hosts: HostTable, path: Path, requirement: str) -> BoolArray:
    """Match an attribute that differs from host to host, such as the host name. Shapes: → (H,)."""
    verdicts = np.zeros(len(hosts), dtype=np.bool_)
    for row in range(len(hosts)):
        value = _walk(getattr(HostState(hosts, row), path[0]), path[1:])
        verdicts[row] = value is not _MISSING and match(_text(value), requirement)
    return verdicts


def _walk(value: Any, path: Path) -> Any:
    for name in path:
        if isinstance(value, str):
            try:
                value = json.loads(value)
            except ValueError:
                return _MISSING
        if not isinstance(value, Mapping) or name not in value:
            return _MISSING
        value = value[name]
    return value


def _text(value: Any) -> str | None:
    """Return a value as text, or None for None. Tuples are printed like lists."""
    if value is None:
        return None
    return str(list(value) if isinstance(value, tuple) else value)
