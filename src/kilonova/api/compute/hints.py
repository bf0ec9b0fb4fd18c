# SPDX-License-Identifier: Apache-2.0
"""Scheduler hints in request bodies: limits on their number and size, and conversion of their values to strings."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from kilonova.api.http import Context
from kilonova.api.validation import invalid_field
from kilonova.db import instances
from kilonova.scheduler.filters import different_host, same_host
from kilonova.scheduler.filters.json_query import HINT as QUERY
from kilonova.scheduler.filters.json_query import QueryTooLarge, require_small

FIELD = "os:scheduler_hints"
MOST_HINTS = 64
LONGEST_NAME = 255
DEEPEST = 8


def read_hints(ctx: Context, given: Mapping[str, object], *, field: str = FIELD) -> dict[str, tuple[str, ...]]:
    """Return hint → its values as strings. Hints with reserved names (``_nova…``) are left out.

    Raises: InvalidRequest naming the field, if the hints are too many, too large, or too deeply nested.
    """
    if len(given) > MOST_HINTS:
        raise invalid_field(field, f"There are {len(given)} hints; at most {MOST_HINTS} are allowed.")
    for name, value in given.items():
        if len(name) > LONGEST_NAME:
            raise invalid_field(
                field, f"The name of a hint has {len(name)} characters; at most {LONGEST_NAME} are allowed."
            )
        if _is_deeper(value, DEEPEST):
            raise invalid_field(f"{field}.{name}", f"The value is nested more than {DEEPEST} levels deep.")
    largest, size = ctx.backend.settings.api.max_hints_size, len(orjson.dumps(given))
    if size > largest:
        raise invalid_field(field, f"The hints have {size} bytes of JSON; at most {largest} are allowed.")
    hints = {name: _texts(value) for name, value in given.items() if not name.startswith("_nova")}
    try:
        require_small(hints.get(QUERY, ()))
    except QueryTooLarge as error:
        raise invalid_field(f"{field}.{QUERY}", str(error)) from None
    return hints


def unseen_instances(ctx: Context, hints: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Return the server uuids in affinity hints that belong to servers hidden from the caller.

    The scheduler treats these servers as nonexistent.
    """
    named = {uuid for hint in (same_host.HINT, different_host.HINT) for uuid in hints.get(hint, ())}
    if not named:
        return frozenset()
    with ctx.read() as connection:
        found = instances.get_many(connection, sorted(named))
    return frozenset(each.uuid for each in found if not ctx.sees("os_compute_api:servers:show", each.project_id))


def shown_hints(hints: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the hints in the form of API replies: a hint with a single value is shown without a list."""
    return {name: values[0] if len(values) == 1 else list(values) for name, values in hints.items()}


def _texts(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _is_deeper(value: object, levels: int) -> bool:
    """Whether lists and mappings in ``value`` are nested more than ``levels`` deep.

    It uses a loop, because deep recursion would exceed Python's recursion limit.
    """
    inside: Iterable[object] = [value]
    for _ in range(levels + 1):
        inside = [
            item
            for outer in inside
            if isinstance(outer, list | dict)
            for item in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not inside:
            return False
    return True
