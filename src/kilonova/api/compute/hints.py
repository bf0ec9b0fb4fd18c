# SPDX-License-Identifier: Apache-2.0
"""Scheduler hints: what a request may say to the scheduler, and how much of it."""

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


def read_hints(ctx: Context, given: Mapping[str, Any], *, field: str = FIELD) -> dict[str, tuple[str, ...]]:
    """Return scheduler hints, each with all its values as text, without those that only Kilonova itself may give.

    Raises: InvalidRequest naming the hint, when there are too many, or too much is in them.
    """
    if len(given) > MOST_HINTS:
        raise invalid_field(field, f"At most {MOST_HINTS} hints are allowed, not {len(given)}.")
    for name, value in given.items():
        if len(name) > LONGEST_NAME:
            raise invalid_field(field, f"The name of a hint has at most {LONGEST_NAME} characters, not {len(name)}.")
        if _is_deeper(value, DEEPEST):
            raise invalid_field(f"{field}.{name}", f"It is nested more than {DEEPEST} levels deep.")
    largest, size = ctx.backend.settings.api.max_hints_size, len(orjson.dumps(given))
    if size > largest:
        raise invalid_field(field, f"All hints together may have {largest} bytes of JSON, not {size}.")
    hints = {name: _texts(value) for name, value in given.items() if not name.startswith("_nova")}
    try:
        require_small(hints.get(QUERY, ()))
    except QueryTooLarge as error:
        raise invalid_field(f"{field}.{QUERY}", str(error)) from None
    return hints


def unseen_instances(ctx: Context, hints: Mapping[str, tuple[str, ...]]) -> frozenset[str]:
    """Return the instances in the hints that the caller may not see; nobody is put next to somebody unknown."""
    named = {uuid for hint in (same_host.HINT, different_host.HINT) for uuid in hints.get(hint, ())}
    if not named:
        return frozenset()
    with ctx.read() as connection:
        found = instances.get_many(connection, sorted(named))
    return frozenset(each.uuid for each in found if not ctx.sees("os_compute_api:servers:show", each.project_id))


def shown_hints(hints: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return hints as the API shows them: a value alone is no list."""
    return {name: values[0] if len(values) == 1 else list(values) for name, values in hints.items()}


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list) else (str(value),)


def _is_deeper(value: Any, levels: int) -> bool:
    """Tell whether lists and mappings are nested deeper than that; without recursion, which has a limit of its own."""
    inside: Iterable[Any] = [value]
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
