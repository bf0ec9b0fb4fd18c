# SPDX-License-Identifier: Apache-2.0
"""Plans of moves as tables."""

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.printing import counted, output_console, plain_table


def print_plan(found: Mapping[str, Any]) -> None:
    """Print the moves and stays of a plan, and its totals."""
    console = output_console()
    if found["moves"]:
        console.print(moves_table(found))
        console.print()
    if found["stays"]:
        console.print(stays_table(found))
        console.print()
    console.print(Text(totals_text(found), style="dim"))


def print_saved_plan(plan: Mapping[str, Any]) -> None:
    """Print a saved plan: its moves with their states, the servers that stay, and its state."""
    console = output_console()
    if plan["moves"]:
        console.print(saved_moves_table(plan))
        console.print()
    if plan["stays"]:
        console.print(stays_table(plan))
        console.print()
    console.print(Text(summary_text(plan)))


def summary_text(plan: Mapping[str, Any]) -> str:
    """Return the state of a saved plan with the numbers of its moves."""
    counts = ", ".join(f"{number} {state}" for state, number in plan["progress"].items() if number)
    moves = f"moves: {counts or 'none'} ({plan['gib_done']:g} of {plan['gib']:g} GiB)"
    again = f", planned again {counted(plan['replans'], 'time')}" if plan["replans"] else ""
    told = f" {plan['message']}" if plan["message"] else ""
    return f"Plan {plan['id']} is {plan['state']}; {moves}{again}.{told}"


def saved_moves_table(plan: Mapping[str, Any]) -> Table:
    """Return a row for each move of a saved plan, with its state."""
    table = plain_table("Wave", "Server", "From", "To", "Kind", "State")
    for move in plan["moves"]:
        state = f"{move['state']}: {move['reason']}" if move["reason"] else move["state"]
        cells = (str(move["wave"]), server_text(move), move["from"], move["to"] or "", move["kind"], state)
        table.add_row(*map(Text, cells))
    return table


def totals_text(found: Mapping[str, Any]) -> str:
    moves = f"{counted(len(found['moves']), 'move')} in {counted(found['waves'], 'wave')}, {found['gib']:g} GiB"
    return f"{moves}, after change {found['seq']} of the cloud. Nothing was moved."


def moves_table(found: Mapping[str, Any]) -> Table:
    """Return a row for each move."""
    table = plain_table("Wave", "Server", "From", "To", "Kind", "GiB", right=["GiB"])
    for move in found["moves"]:
        kind = "live" if move["live"] else "cold"
        cells = (str(move["wave"]), server_text(move), move["from"], move["to"], kind, f"{move['gib']:g}")
        table.add_row(*map(Text, cells))
    return table


def stays_table(found: Mapping[str, Any]) -> Table:
    """Return a row for each server that stays: the reason, the rules that refuse it, and the smallest change."""
    table = plain_table("Stays", "Host")
    table.add_column("Reason", overflow="fold", ratio=1)
    for stay in found["stays"]:
        lines = [stay["reason"]]
        lines += [
            f"{each['rule']}: {counted(each['hosts'], 'host')}, {each['reason']}" for each in stay.get("rules", ())
        ]
        for miss in stay.get("nearest_miss", ()):
            lines.append("It would move if " + "; ".join(change["text"] for change in miss["changes"]))
        table.add_row(Text(server_text(stay)), Text(stay["host"]), Text("\n".join(lines), style="yellow"))
    return table


def server_text(found: Mapping[str, Any]) -> str:
    return f"{found['server']} ({found['name']})" if found["name"] else str(found["server"])
