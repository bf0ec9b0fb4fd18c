# SPDX-License-Identifier: Apache-2.0
"""Keep hosts that satisfy an expression the user wrote."""

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kilonova.model.request_spec import RequestSpec
from kilonova.scheduler.host_attributes import COLUMNS
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray
from kilonova.scheduler.nova_compat.host_state import HostState

HINT = "query"
_COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}
_OPERATORS = frozenset({*_COMPARISONS, "in", "not", "and", "or"})
_NAMES: Mapping[str, str] = {
    "host": "hosts",
    "nodename": "nodes",
    "hypervisor_hostname": "nodes",
    "uuid": "uuids",
    "host_ip": "host_ips",
}
_COUNTS: Mapping[str, str] = {
    "num_instances": "num_instances",
    "io_workload": "num_io_ops",
    "failed_builds": "failed_builds",
}
_OF_PROFILE = frozenset({"hypervisor_type", "hypervisor_version", "cpu_info", "supported_instances"})
_DEEPEST = 50

Value = Any
"""A JSON scalar, or a column of them with one entry for each host that is looked at."""


@dataclass(frozen=True, slots=True)
class JsonFilter:
    """Evaluate the hint ``query``, JSON text of a prefix expression: ``["and", [">=", "$free_ram_mb", 1024], …]``.

    Operators are ``=  <  >  <=  >=  in  not  and  or``. The first argument is compared with every other; a comparison
    of fewer than two is false. ``$a.b`` reads a host attribute and walks mappings; what a host lacks is left out of the
    arguments. ``not`` negates each argument and holds if one result is true. A nested list is always an expression.
    No query, and an empty one, let every host pass. Values of types that cannot be ordered compare as false.

    A query that is no such expression lets no host pass. Nova raises there and fails the request as well, with less to
    read. Nova also takes a nested ``not`` for true whatever it negates.

    Hosts of one profile are judged together, so that only the rarely asked attributes go host by host.

    Shapes: attributes (H,) → (H,) bool.
    Source: spec SCHEDULER §3 #19, §15.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    reason: str = "does not satisfy the query hint, or the hint is no valid query"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        texts = spec.hints.get(HINT, ())
        if not any(texts):
            return hosts.everyone
        try:
            query = json.loads(texts[0]) if len(texts) == 1 else None
            if query is None:
                return np.zeros(len(hosts), dtype=np.bool_)
            if not query:
                return hosts.everyone
            _check(query, 0)
        except (ValueError, RecursionError):
            return np.zeros(len(hosts), dtype=np.bool_)
        passed = np.zeros(len(hosts), dtype=np.bool_)
        one_by_one = not all(_is_column(path[0]) for path in _paths(query))
        for rows in _groups(hosts, one_by_one=one_by_one):
            passed[rows] = _holds(_evaluate(query, _Reader(hosts, rows)))
        return passed


def _check(query: Any, depth: int) -> None:
    """Raise ValueError unless ``query`` is an expression, empty ones included."""
    if not isinstance(query, list) or depth > _DEEPEST:
        raise ValueError("no expression")
    if query and (not isinstance(query[0], str) or query[0] not in _OPERATORS):
        raise ValueError("no operator")
    for argument in query[1:]:
        if isinstance(argument, list):
            _check(argument, depth + 1)
        elif isinstance(argument, dict):
            raise ValueError("no value")  # noqa: TRY004  told apart by nobody


def _paths(query: list[Any]) -> Iterator[tuple[str, ...]]:
    for argument in query[1:]:
        if isinstance(argument, list):
            yield from _paths(argument)
        elif isinstance(argument, str) and argument.startswith("$"):
            yield tuple(argument[1:].split("."))


def _is_column(name: str) -> bool:
    """Tell whether an attribute is a column or the same for all hosts of a profile."""
    return name in COLUMNS or name in _NAMES or name in _OF_PROFILE or name == "stats" or not hasattr(HostState, name)


def _groups(hosts: HostTable, *, one_by_one: bool) -> Iterator[IntArray]:
    """Yield rows that are judged together: those of each profile, or each on its own."""
    if one_by_one:
        yield from (np.array([row]) for row in range(len(hosts)))
        return
    for number in np.unique(hosts.profile):
        yield np.flatnonzero(hosts.profile == number)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads attributes for rows of one profile. Whatever differs from row to row is a column."""

    hosts: HostTable
    rows: IntArray

    def read(self, path: tuple[str, ...]) -> Value:
        """Return the value at a path, None when these hosts lack it."""
        name, rest = path[0], path[1:]
        if name in COLUMNS:
            return None if rest else COLUMNS[name](self.hosts, self.rows)
        if name in _NAMES:
            return None if rest else self._names(_NAMES[name])
        if name == "stats" and len(rest) == 1 and rest[0] in _COUNTS:
            return getattr(self.hosts, _COUNTS[rest[0]])[self.rows]
        profile = self.hosts.profiles[int(self.hosts.profile[self.rows[0]])]
        if name in _OF_PROFILE:
            return _walk(getattr(profile, name), rest)
        if name == "stats":
            return _walk(profile.extra, rest)
        if name.startswith("_") or not hasattr(HostState, name):
            return None
        return _walk(getattr(HostState(self.hosts, int(self.rows[0])), name), rest)

    def _names(self, column: str) -> NDArray[np.object_]:
        values = getattr(self.hosts, column)
        return np.array([values[row] for row in self.rows.tolist()], dtype=object)


def _walk(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(name)
    return value


def _evaluate(query: list[Any], reader: _Reader) -> Value:
    if not query:
        return True
    arguments: list[Value] = []
    for argument in query[1:]:
        value = argument
        if isinstance(argument, list):
            value = _evaluate(argument, reader)
        elif argument == "":
            value = None
        elif isinstance(argument, str) and argument.startswith("$"):
            value = reader.read(tuple(argument[1:].split(".")))
        if value is not None:
            arguments.append(value)
    name = query[0]
    if name == "and":
        return _all([_holds(value) for value in arguments])
    if name == "or":
        return _any([_holds(value) for value in arguments])
    if name == "not":
        return _any([_negated(_holds(value)) for value in arguments])
    if len(arguments) < 2:
        return False
    first, *others = arguments
    if name == "in":
        return _any([_compare(operator.eq, first, other) for other in others])
    return _all([_compare(_COMPARISONS[name], first, other) for other in others])


def _compare(compare: Callable[[Any, Any], Any], one: Value, other: Value) -> bool | BoolArray:
    """Compare values or columns element by element; what cannot be ordered is false."""
    if not isinstance(one, np.ndarray) and not isinstance(other, np.ndarray):
        return _compare_values(compare, one, other)
    if _is_numeric(one) and _is_numeric(other):
        result: BoolArray = np.asarray(compare(one, other), dtype=np.bool_)
        return result
    left, right = np.broadcast_arrays(np.asarray(one, dtype=object), np.asarray(other, dtype=object))
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    return np.array([_compare_values(compare, a, b) for a, b in pairs], dtype=np.bool_)


def _compare_values(compare: Callable[[Any, Any], Any], one: Any, other: Any) -> bool:
    try:
        return bool(compare(one, other))
    except TypeError:
        return False


def _is_numeric(value: Value) -> bool:
    return value.dtype != object if isinstance(value, np.ndarray) else isinstance(value, int | float)


def _holds(value: Value) -> bool | BoolArray:
    """Return the truth of a value, or of each in a column."""
    return value.astype(np.bool_) if isinstance(value, np.ndarray) else bool(value)


def _negated(truth: bool | BoolArray) -> bool | BoolArray:
    return ~truth if isinstance(truth, np.ndarray) else not truth


def _all(truths: list[bool | BoolArray]) -> bool | BoolArray:
    result: bool | BoolArray = True
    for truth in truths:
        result = np.logical_and(result, truth)
    return result


def _any(truths: list[bool | BoolArray]) -> bool | BoolArray:
    result: bool | BoolArray = False
    for truth in truths:
        result = np.logical_or(result, truth)
    return result
