# SPDX-License-Identifier: Apache-2.0
"""Console output of commands, and common texts for hosts and rules."""

import json
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

_WIDTH_OF_A_PIPE = 120


def output_console() -> Console:
    """Return the console for output: as wide as the terminal, or of a fixed width if output is no terminal."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH_OF_A_PIPE)


def print_json(answer: Any) -> None:
    json.dump(answer, sys.stdout, indent=2)
    print()


def plain_table(*titles: str, right: Collection[str] = ()) -> Table:
    """Return a table without a frame. ``titles``: of columns with folded texts. ``right``: those of numbers."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in titles:
        table.add_column(title, overflow="fold", justify="right" if title in right else "left")
    return table


_STATES = {"done": "green", "failed": "red", "cancelled": "yellow", "paused": "yellow"}


def state_text(state: str) -> Text:
    """Return the state of a job or a plan in its colour."""
    return Text(state, style=_STATES.get(state, ""))


def host_text(place: Mapping[str, Any]) -> str:
    """Return the name of a host, followed by that of its hypervisor node if the two differ."""
    host, node = str(place["host"]), str(place["node"])
    return host if host == node else f"{host} ({node})"


def counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def duration_text(seconds: int) -> str:
    """Return a duration as hours, minutes and seconds, preceded by the days if there are any."""
    return str(timedelta(seconds=seconds))


def hosts_text(count: int) -> str:
    return counted(count, "host")


def removed_text(step: Mapping[str, Any]) -> Text:
    """Return the number of hosts that a rule rejected, with the reason, and with their names if known."""
    text = Text()
    text.append(f"{hosts_text(step['hosts_in'] - step['hosts_out'])}, {step['reason']}", style="yellow")
    if step.get("removed"):
        text.append(": ", style="yellow")
        text.append(", ".join(map(host_text, step["removed"])))
    return text


def unread_lines(*answers: Mapping[str, Any]) -> list[Text]:
    """Return a line for each item of request data that no rule reads, and one for rules that may read any data."""
    texts = dict.fromkeys(each["text"] for answer in answers for each in answer["unread"])
    lines = [Text(f"Not read: {text}.", style="yellow") for text in texts]
    if rules := dict.fromkeys(rule for answer in answers for rule in answer["may_read_anything"]):
        known = ", ".join(rules)
        lines.append(Text(f"Unread data cannot be determined: {known} may read anything.", style="dim"))
    return lines


def ranking_table(ranked: Sequence[Mapping[str, Any]], chosen: str | None) -> Table:
    table = plain_table()
    table.add_column("", width=1)
    table.add_column("Host", overflow="fold")
    table.add_column("Score", justify="right")
    table.add_column("Weighers that count", overflow="fold", ratio=1)
    for host in ranked:
        shares = ", ".join(f"{weigher} {share:+.4g}" for weigher, share in host["weights"].items() if share)
        table.add_row("→" if host["host"] == chosen else "", host_text(host), f"{host['score']:.4f}", shares or "none")
    return table


def hosts_table(hosts: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table of hosts, with all reasons why each host is rejected."""
    table = plain_table()
    table.add_column("Host", overflow="fold")
    table.add_column("What keeps it out", overflow="fold", ratio=1)
    for host in hosts:
        reasons = "; ".join(f"{each['rule']}: {each['reason']}" for each in host["reasons"])
        table.add_row(host_text(host), Text(reasons) if reasons else Text("fits", style="green"))
    return table
