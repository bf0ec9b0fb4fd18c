# SPDX-License-Identifier: Apache-2.0
"""Losses of hosts as tables: whether the servers of lost hosts fit elsewhere."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.printing import hosts_text, plain_table
from kilonova.errors import InvalidRequest

_ORDER = "Servers are evacuated the largest first, each to the scheduler's choice. After change {seq} of the cloud."

_VERDICTS = {
    True: "All servers fit elsewhere.",
    False: "Not all servers fit elsewhere.",
    None: "Not all sets of hosts were tried.",
}


def lose_of(text: str) -> str | int:
    """Parse ``host``, ``zone`` or a number of hosts. Raises: InvalidRequest."""
    if text in {"host", "zone"}:
        return text
    if not text.isascii() or not text.isdigit() or not int(text):
        raise InvalidRequest(f"--lose must be host, zone or a number of hosts, not {text!r}")
    return int(text)


def losses_table(found: Mapping[str, Any]) -> Table:
    """Return a row for each loss of a host whose servers do not fit, or for each zone."""
    table = plain_table()
    by_zone = found["lose"] != "host"
    for title in ("Zone", "Lost") if by_zone else ("Lost",):
        table.add_column(title, overflow="fold")
    for title in ("Servers", "Left over"):
        table.add_column(title, justify="right")
    table.add_column("First server without a host", overflow="fold", ratio=1)
    for each in found["losses"]:
        worst = each["worst"] if by_zone else each
        if by_zone:
            start = [each["zone"], f"{each['lost']} of {hosts_text(each['zone_hosts'])}"]
        else:
            start = [", ".join(each["hosts"])]
        table.add_row(*map(Text, start), *_numbers(worst, each.get("survives", False)), _first(worst))
    return table


def summary(found: Mapping[str, Any]) -> str:
    """Return the verdict in one line, and the order of evacuations."""
    return f"{_VERDICTS[found['survives']]} {_ORDER.format(seq=found['seq'])}"


def _numbers(worst: Mapping[str, Any] | None, survives: bool | None) -> tuple[Text, Text]:
    if worst is None:
        return Text("any"), Text("0", style="green")
    left = worst["left_over"]
    shown = str(left) if left or survives else "0 so far"
    return Text(str(worst["servers"])), Text(shown, style="red" if left else "green")


def _first(worst: Mapping[str, Any] | None) -> Text:
    if worst is None or not worst["stays"]:
        return Text("")
    first = worst["stays"][0]
    reasons = [f"{each['rule']}: {hosts_text(each['hosts'])}, {each['reason']}" for each in first["reasons"]]
    return Text("\n".join([first["name"] or first["server"], *reasons]), style="yellow")
