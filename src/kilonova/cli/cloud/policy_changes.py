# SPDX-License-Identifier: Apache-2.0
"""Changes of policy in options of commands, as the operator API takes them."""

from collections.abc import Iterable, Mapping
from typing import Any

import typer

Values = dict[str, dict[str, str | None]]


def pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Return name → text of ``name=text`` arguments. Raises: BadParameter."""
    found: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=VALUE.", param_hint=option)
        found[name] = value
    return found


def weights(option: str, given: Iterable[str]) -> dict[str, float]:
    """Return weigher → multiplier. Raises: BadParameter."""
    found: dict[str, float] = {}
    for name, text in pairs(option, given).items():
        try:
            found[name] = float(text)
        except ValueError:
            raise typer.BadParameter(f"{text!r} is not a number.", param_hint=option) from None
    return found


def values_by_name(option: str, given: Iterable[str]) -> Values:
    """Return name → key → value of ``name:key=value`` arguments; ``name:key`` removes a key. Raises: BadParameter."""
    found: Values = {}
    for text in given:
        name, colon, rest = text.partition(":")
        key, sign, value = rest.partition("=")
        if not colon or not name or not key:
            raise typer.BadParameter(f"{text!r} is not NAME:KEY=VALUE or NAME:KEY.", param_hint=option)
        found.setdefault(name, {})[key] = value if sign else None
    return found


def change_body(
    *,
    options: Iterable[str],
    enable: Iterable[str],
    disable: Iterable[str],
    multipliers: Iterable[str],
    aggregates: Iterable[str],
    flavors: Iterable[str],
) -> dict[str, Any]:
    """Return the change of policy that options of a command describe. Raises: BadParameter."""
    given: Mapping[str, Any] = {
        "options": pairs("--set", options),
        "enable": list(enable),
        "disable": list(disable),
        "weights": weights("--weight", multipliers),
        "aggregates": {name: {"metadata": data} for name, data in values_by_name("--aggregate", aggregates).items()},
        "flavors": {name: {"extra_specs": data} for name, data in values_by_name("--flavor", flavors).items()},
    }
    return {name: value for name, value in given.items() if value}
