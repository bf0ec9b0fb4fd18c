# SPDX-License-Identifier: Apache-2.0
"""``kilonova hosts``: where the agents of hosts are, which guests are not where they are recorded, and what to do."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from kilonova.cli.cloud_options import OPERATOR, AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.printing import counted, output_console, plain_table, print_json
from kilonova.errors import Conflict, InvalidRequest, NotFound

app = typer.Typer(help="See where agents are, and what hosts have that is not recorded there.")


@app.callback(invoke_without_command=True)
def hosts(
    context: typer.Context,
    strays: Annotated[
        bool, typer.Option("--strays", help="List guests that are not where their servers are recorded.")
    ] = False,
    host: Annotated[str, typer.Option(metavar="HOST", help="Only this one, or those of this one.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 100,
    marker: Annotated[str, typer.Option(help="Only those after this host or stray.")] = "",
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """List hosts with the process that each agent is in, or the guests that are not where they are recorded."""
    if context.invoked_subcommand is not None:
        return
    query = {"host": host, "marker": marker, "limit": str(limit)}
    asked = {name: value for name, value in query.items() if value}
    answer = connect(data, os_cloud).get(OPERATOR, "/strays" if strays else "/hosts", **asked)
    if as_json:
        print_json(answer)
    elif strays:
        show_strays(answer, output_console())
    else:
        show_hosts(answer, output_console())


@app.command("remove-guest")
def remove_guest(
    host: Annotated[str, typer.Argument(metavar="HOST", help="The host that has it.")],
    guest: Annotated[str, typer.Argument(metavar="GUEST", help="Its id, as `--strays` shows it.")],
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """Have a stray guest and its disks removed from a host, for good."""
    try:
        body = {"remove": {"host": host, "guest": guest}}
        answer = connect(data, os_cloud).call("POST", OPERATOR, "/strays/remove", json=body)
    except (NotFound, Conflict) as error:
        raise InvalidRequest(error.message) from None
    if as_json:
        print_json(answer)
    elif answer["removal"]["host_was_asked"]:
        print(f"Host {host} removes guest {guest}.")
    else:
        print(f"Host {host} cannot be asked at present. It removes guest {guest} when it reports its guests again.")


# --- how it looks -----------------------------------------------------------------------------------------------------


def show_hosts(answer: Mapping[str, Any], console: Console) -> None:
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


def show_strays(answer: Mapping[str, Any], console: Console) -> None:
    """Print one line for each stray, and for each kind of them what may be done."""
    strays = answer["strays"]
    if not strays:
        console.print("Every guest is where its server is recorded, as far as hosts have reported.")
        return
    table = plain_table()
    for name in ("Host", "Guest", "State", "Since", "Reason"):
        table.add_column(name, overflow="fold")
    for each in strays:
        reason = each["reason"] + (f" ({each['recorded_host']})" if each["reason"] == "elsewhere" else "")
        table.add_row(each["host"], each["guest"], each["power_state"] or "no guest", each["since"], reason)
    console.print(table)
    for reason in sorted({each["reason"] for each in strays}):
        these = [each for each in strays if each["reason"] == reason]
        console.print()
        console.print(Text(f"{reason}: {counted(len(these), 'guest')}", style="yellow"))
        what = these[0]["what"] if reason != "elsewhere" else "The server is recorded on another host."
        console.print(Text(f"{what} {these[0]['remedy']}"))
    console.print()
    console.print("To remove a guest and its disks: kilonova hosts remove-guest HOST GUEST")
    if answer.get("strays_links"):
        console.print(f"There are more: --marker {strays[-1]['id']}")
