# SPDX-License-Identifier: Apache-2.0
"""Output of ``kilonova hosts``: for each host its agent, and the abilities that its hypervisor lacks."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, Api
from kilonova.cli.cloud.printing import output_console, plain_table, print_json


def list_agents(api: Api, query: Mapping[str, str], *, as_json: bool) -> None:
    """Print one page of the list of hosts."""
    answer = api.get(OPERATOR, "/hosts", **{name: value for name, value in query.items() if value})
    if as_json:
        print_json(answer)
    else:
        show_hosts(answer, output_console())


def show_hosts(answer: Mapping[str, Any], console: Console) -> None:
    """Print a line for each host."""
    found = answer["hosts"]
    if not found:
        console.print("There are no hosts.")
        return
    table = plain_table("Host", "State", "Status", "Agent", "Machine", "Release", "Messages", "Last seen", "Lacks")
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
            ", ".join(sorted({ability for hypervisor in each["hypervisors"] for ability in hypervisor["lacks"]})),
        )
    console.print(table)
    for reason in dict.fromkeys(each["refused"] for each in found if each.get("refused")):
        console.print(Text(reason, style="red"), soft_wrap=True)
    if answer.get("hosts_links"):
        console.print(f"Show more with --marker {found[-1]['host']}")
