# SPDX-License-Identifier: Apache-2.0
"""``kilonova hosts``: where the agent of each host runs, and which release and messages it speaks."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from kilonova.cli.cloud_options import OPERATOR, AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.printing import output_console, plain_table, print_json


def hosts(
    host: Annotated[str, typer.Option(metavar="HOST", help="Only this one.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 1000,
    marker: Annotated[str, typer.Option(metavar="HOST", help="Only those after this one.")] = "",
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """List hosts by name, with the process that each agent is in."""
    query = {"host": host, "marker": marker, "limit": str(limit)}
    answer = connect(data, os_cloud).get(OPERATOR, "/hosts", **{name: value for name, value in query.items() if value})
    if as_json:
        print_json(answer)
    else:
        show(answer, output_console())


def show(answer: Mapping[str, Any], console: Console) -> None:
    """Print one line for each host."""
    found = answer["hosts"]
    if not found:
        console.print("There are no hosts.")
        return
    table = plain_table()
    for name in ("Host", "State", "Status", "Agent", "Machine", "Release", "Messages", "Last seen"):
        table.add_column(name, overflow="fold")
    for each in found:
        table.add_row(
            each["host"],
            Text(each["state"], style="" if each["state"] == "up" else "red"),
            each["status"],
            each["agent"] or "in a control process",
            each["machine"] or "",
            each["release"] or "",
            str(each["message_version"] or ""),
            (each["last_seen_at"] or "never").partition(".")[0],
        )
    console.print(table)
    if answer.get("hosts_links"):
        console.print(f"There are more: --marker {found[-1]['host']}")
