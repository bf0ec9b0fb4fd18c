# SPDX-License-Identifier: Apache-2.0
"""Parsers of query parameters by which the hosts in an explanation are filtered and paged."""

from typing import Any

from kilonova.api.http import Context, Request, integer_param
from kilonova.api.validation import invalid_parameter
from kilonova.scheduler.engine.funnel import OWN_RULES, PLACEMENT_RULE
from kilonova.scheduler.rule import rule_name

_PAGE = 100


def flag(request: Request, name: str) -> bool | None:
    """Return the boolean query parameter ``name``, or None if it is absent. Raises: InvalidRequest."""
    text = request.param(name)
    if text not in {None, "true", "false"}:
        raise invalid_parameter(name, text, "Expected true or false.")
    return None if text is None else text == "true"


def host_filters(ctx: Context, request: Request) -> dict[str, Any]:
    """Return the query parameters that select hosts, as keyword arguments of ``hosts_page``. Raises: InvalidRequest."""
    limit = integer_param(request, "limit")
    return {
        "limit": min(_PAGE if limit is None else limit, ctx.backend.settings.api.max_limit),
        "marker": request.param("marker"),
        "name": request.param("host"),
        "rule": _rule(ctx, request),
        "passed": flag(request, "passed"),
    }


def _rule(ctx: Context, request: Request) -> str | None:
    name, engine = request.param("rule"), ctx.backend.engine
    if name is None or name.startswith(PLACEMENT_RULE):
        return name
    known = (*OWN_RULES, *(each.name for each in engine.request_filters), *map(rule_name, engine.filters))
    if name not in known:
        raise invalid_parameter("rule", name, f"Expected {PLACEMENT_RULE}… or one of {', '.join(known)}.")
    return name
