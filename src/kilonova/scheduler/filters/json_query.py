# SPDX-License-Identifier: Apache-2.0
"""JsonFilter: hosts that satisfy a JSON expression in a scheduler hint."""

import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_attributes import COLUMNS
from kilonova.scheduler.host_table import BoolArray, HostTable, IntArray
from kilonova.scheduler.nova_compat.host_state import HostState
from kilonova.scheduler.reads import Reads, names

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
#: Largest number of operators and values in a query. Each of them is evaluated on all hosts, while other requests wait.
MOST_VALUES = 100
LONGEST = 8192


class QueryTooLarge(ValueError):
    """The query exceeds a limit of length, size or depth."""


Value = Any
"""A JSON scalar, or an array with one scalar per judged host."""


@dataclass(frozen=True, slots=True)
class JsonFilter:
    """Keep hosts for which the hint ``query`` is true: a JSON expression ``["and", [">=", "$free_ram_mb", 1024], …]``.

    Operators are ``=  <  >  <=  >=  in  not  and  or``. A comparison compares its first argument with each further
    argument; a comparison with fewer than two arguments is false. ``$a`` reads the host attribute a, and ``$a.b`` the
    key b of this attribute; if a host lacks it, the argument is dropped. ``not`` negates each argument and is true if
    one result is true. A nested list is always an expression. A comparison of values without an order is false.

    Without a query, or with an empty query, every host passes. With an invalid query no host passes; Nova raises an
    exception and also fails the request, with a less helpful message. A nested ``not`` is evaluated, whereas Nova
    treats it as true.

    Hosts with equal capabilities are judged together; rarely used attributes are evaluated host by host.

    Shapes: attributes (H,) → (H,) bool.
    Source: spec SCHEDULER §3 #19, §15.
    """

    run_once: ClassVar[bool] = False
    only_where_placed: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = False
    depends_on: ClassVar[DependsOn] = DependsOn.ROWS
    reads: ClassVar[Reads] = Reads(hints=names(HINT))
    reason: str = "does not satisfy the query hint, or the hint is no valid query"

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        texts = spec.hints.get(HINT, ())
        if not any(texts):
            return hosts.all_hosts
        try:
            require_small(texts)
            query = json.loads(texts[0]) if len(texts) == 1 else None
            if query is None:
                return np.zeros(len(hosts), dtype=np.bool_)
            if not query:
                return hosts.all_hosts
            _check(query)
        except (ValueError, RecursionError):
            return np.zeros(len(hosts), dtype=np.bool_)
        passed = np.zeros(len(hosts), dtype=np.bool_)
        for rows in _groups(hosts, list(_paths(query))):
            passed[rows] = _holds(_evaluate(query, _Reader(hosts, rows)))
        return passed


def require_small(texts: Sequence[str]) -> None:
    """Raise QueryTooLarge, naming the exceeded limit, if the hint is too long, too large or too deeply nested."""
    for text in texts:
        if len(text) > LONGEST:
            raise QueryTooLarge(f"The query has {len(text)} characters; the limit is {LONGEST}.")
        try:
            inside: list[Any] = [json.loads(text)]
        except (ValueError, RecursionError):
            continue  # invalid JSON: the filter excludes all hosts
        values = depth = 0
        while inside := [item for outer in inside if isinstance(outer, list) for item in outer]:
            values, depth = values + len(inside), depth + 1
        if values > MOST_VALUES:
            raise QueryTooLarge(f"The query has {values} operators and values; the limit is {MOST_VALUES}.")
        if depth > _DEEPEST:
            raise QueryTooLarge(f"The query is nested {depth} levels deep; the limit is {_DEEPEST}.")


def _check(query: Any) -> None:
    """Raise ValueError unless ``query`` is a valid expression; empty lists are valid."""
    if not isinstance(query, list):
        raise ValueError("no expression")  # noqa: TRY004  callers catch ValueError only
    if query and (not isinstance(query[0], str) or query[0] not in _OPERATORS):
        raise ValueError("no operator")
    for argument in query[1:]:
        if isinstance(argument, list):
            _check(argument)
        elif isinstance(argument, dict):
            raise ValueError("no value")  # noqa: TRY004  callers catch ValueError only


def _paths(query: list[Any]) -> Iterator[tuple[str, ...]]:
    for argument in query[1:]:
        if isinstance(argument, list):
            yield from _paths(argument)
        elif isinstance(argument, str) and argument.startswith("$"):
            yield tuple(argument[1:].split("."))


def _is_column(path: Sequence[str]) -> bool:
    """Tell whether the attribute at ``path`` is a column of the host table, or does not exist at all."""
    name = path[0]
    return name in COLUMNS or name in _NAMES or _is_count(path) or (not _is_of_profile(name) and _is_unknown(name))


def _is_of_profile(name: str) -> bool:
    return name in _OF_PROFILE or name == "stats"


def _is_count(path: Sequence[str]) -> bool:
    return len(path) == 2 and path[0] == "stats" and path[1] in _COUNTS


def _is_unknown(name: str) -> bool:
    return name.startswith("_") or not hasattr(HostState, name)


def _groups(hosts: HostTable, paths: Sequence[Sequence[str]]) -> Iterator[IntArray]:
    """Yield groups of rows that can be judged together: all rows, the rows of one profile, or single rows.

    The groups depend on the attributes that the query reads (``paths``).
    """
    if not len(hosts):
        return
    if all(_is_column(path) for path in paths):
        yield np.arange(len(hosts))
    elif all(_is_column(path) or _is_of_profile(path[0]) for path in paths):
        order = np.argsort(hosts.profile, kind="stable")
        yield from np.split(order, np.flatnonzero(np.diff(hosts.profile[order])) + 1)
    else:
        yield from (np.array([row]) for row in range(len(hosts)))


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reader of host attributes for rows that are judged together.

    Attributes that can differ between the rows are read as columns.
    """

    hosts: HostTable
    rows: IntArray

    def read(self, path: tuple[str, ...]) -> Value:
        """Return the value of the attribute or key at ``path``, or None if the hosts lack it."""
        name, rest = path[0], path[1:]
        if name in COLUMNS:
            return None if rest else COLUMNS[name](self.hosts, self.rows)
        if name in _NAMES:
            return None if rest else self._names(_NAMES[name])
        if _is_count(path):
            return getattr(self.hosts, _COUNTS[rest[0]])[self.rows]
        if _is_of_profile(name):
            profile = self.hosts.profiles[int(self.hosts.profile[self.rows[0]])]
            return _walk(profile.extra if name == "stats" else getattr(profile, name), rest)
        if _is_unknown(name):
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
    """Compare values or columns element by element. A comparison of values without an order is False."""
    if not isinstance(one, np.ndarray) and not isinstance(other, np.ndarray):
        return _compare_values(compare, one, other)
    if _is_numeric(one) and _is_numeric(other):
        result: BoolArray = np.asarray(compare(one, other), dtype=np.bool_)
        return result
    try:
        return np.asarray(compare(_as_objects(one), _as_objects(other)), dtype=np.bool_)
    except (TypeError, ValueError):  # at least one pair of values has no order: compare each pair separately
        pass
    left, right = np.broadcast_arrays(np.asarray(one, dtype=object), np.asarray(other, dtype=object))
    pairs = zip(left.tolist(), right.tolist(), strict=True)
    return np.array([_is_alike(a, b) and _compare_values(compare, a, b) for a, b in pairs], dtype=np.bool_)


def _is_alike(one: Any, other: Any) -> bool:
    """Tell whether two values can be compared; this check is cheaper than catching an exception."""
    return isinstance(one, str) == isinstance(other, str)


def _as_objects(value: Value) -> Value:
    if not isinstance(value, np.ndarray) and not isinstance(value, str | int | float | None):
        raise TypeError("not a scalar")
    return value.astype(object) if isinstance(value, np.ndarray) else value


def _compare_values(compare: Callable[[Any, Any], Any], one: Any, other: Any) -> bool:
    try:
        return bool(compare(one, other))
    except TypeError:
        return False


def _is_numeric(value: Value) -> bool:
    return value.dtype != object if isinstance(value, np.ndarray) else isinstance(value, int | float)


def _holds(value: Value) -> bool | BoolArray:
    """Return the truth value of a scalar, or of each element of a column."""
    return value.astype(np.bool_) if isinstance(value, np.ndarray) else bool(value)


def _negated(truth: bool | BoolArray) -> bool | BoolArray:
    return ~truth if isinstance(truth, np.ndarray) else not truth


def _all(truths: list[bool | BoolArray]) -> bool | BoolArray:
    columns = [truth for truth in truths if isinstance(truth, np.ndarray)]
    plain = all(truth for truth in truths if not isinstance(truth, np.ndarray))
    return np.logical_and.reduce(columns) if plain and columns else plain


def _any(truths: list[bool | BoolArray]) -> bool | BoolArray:
    columns = [truth for truth in truths if isinstance(truth, np.ndarray)]
    plain = any(truth for truth in truths if not isinstance(truth, np.ndarray))
    return np.logical_or.reduce(columns) if columns and not plain else plain
