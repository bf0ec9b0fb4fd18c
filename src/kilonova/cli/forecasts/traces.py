# SPDX-License-Identifier: Apache-2.0
"""Traces of forecasts: servers from CSV files, one per line. ``docs/planning.md`` describes the columns."""

import csv
import math
from array import array
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from kilonova.errors import ConfigurationError, InvalidRequest
from kilonova.planning.forecast.durations import seconds
from kilonova.planning.forecast.scenario import MOST_ARRIVALS
from kilonova.planning.forecast.server_kinds import KindName, Kinds
from kilonova.planning.forecast.workload import NONE, Servers

REQUIRED = ("arrival", "flavor")
OPTIONAL = ("lifetime", "image", "project", "zone", "resize_after", "resize_to")


def load_trace(path: Path, kinds: Kinds) -> Servers:
    """Return the servers of a trace. Raises: ConfigurationError naming the file, the line and the column."""
    row: dict[str | None, str]
    arrival, lifetime, resized_at = array("d"), array("d"), array("d")
    kind, resized_to = array("i"), array("i")
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file, restval="", strict=True)
        try:
            _check_columns(path, reader.fieldnames or ())
            for row in reader:
                if len(arrival) >= MOST_ARRIVALS:
                    raise ConfigurationError(f"{path}: there may be at most {MOST_ARRIVALS} servers")
                name = _name_of(row)
                arrival.append(_seconds(row, "arrival", least=0.0))
                lifetime.append(_seconds(row, "lifetime"))
                kind.append(kinds.number(name, "trace"))
                to = row.get("resize_to", "")
                resized_at.append(arrival[-1] + _resized_after(row, to))
                resized_to.append(kinds.number(name._replace(flavor=to), "trace") if to else NONE)
        except (csv.Error, UnicodeDecodeError, ValueError, InvalidRequest) as error:
            text = error.message.removeprefix("trace.") if isinstance(error, InvalidRequest) else str(error)
            raise ConfigurationError(f"{path}, line {reader.line_num}: {text}") from None
    made = Servers.of(np.array(arrival), np.array(lifetime), np.array(kind, dtype=np.int64))
    made.resized_at[:] = np.where(np.array(resized_at) < made.departure, resized_at, np.inf)
    made.resized_to[:] = resized_to
    return made


def _check_columns(path: Path, found: Sequence[str]) -> None:
    if missing := [name for name in REQUIRED if name not in found]:
        raise ConfigurationError(f"{path}, line 1: column {missing[0]!r} is missing")
    known = (*REQUIRED, *OPTIONAL)
    if unknown := [name for name in found if name not in known]:
        raise ConfigurationError(f"{path}, line 1: unknown column {unknown[0]!r}; known: {', '.join(known)}")


def _name_of(row: Mapping[str | None, str]) -> KindName:
    if None in row:
        raise ValueError("the line has more cells than the first line")
    return KindName(row["flavor"], row.get("image", ""), row.get("project", ""), row.get("zone", ""))


def _resized_after(row: Mapping[str | None, str], to: str) -> float:
    after = _seconds(row, "resize_after")
    if bool(to) != (after < math.inf):
        raise ValueError("resize_after and resize_to belong together")
    return after


def _seconds(row: Mapping[str | None, str], name: str, least: float = 0.001) -> float:
    """Return a time: a number of seconds, or a duration; infinite if the cell is empty. Raises: ValueError."""
    text = (row.get(name) or "").strip()
    if not text and name != "arrival":
        return math.inf
    try:
        value = float(text)
    except ValueError:
        value = seconds(text)
    if not least <= value < math.inf:
        raise ValueError(f"{name} must be at least {least:g} s, not {text!r}")
    return value
