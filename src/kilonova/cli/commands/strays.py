# SPDX-License-Identifier: Apache-2.0
"""Stray guests and their removal, for ``kilonova hosts``."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, Api, AsJson, DataFolder, connect
from kilonova.cli.cloud.printing import counted, output_console, plain_table, print_json
from kilonova.errors import Conflict, InvalidRequest, NotFound


def list_strays(api: Api, query: Mapping[str, str], *, as_json: bool) -> None:
    """Print the stray guests that hosts have reported. ``query`` may have ``host``, ``limit`` and ``marker``."""
    answer = api.get(OPERATOR, "/strays", **{name: value for name, value in query.items() if value})
    if as_json:
        print_json(answer)
    else:
        show_strays(answer, output_console())


def remove_guest(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Host of the guest.")],
    guest: Annotated[str, typer.Argument(metavar="GUEST", help="Id of the guest, from `--strays`.")],
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """Remove a stray guest and its disks from a host."""
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
        print(f"Host {host} is not reachable. It will remove guest {guest} when it reports its guests again.")


# --- output -----------------------------------------------------------------------------------------------------------


def show_strays(answer: Mapping[str, Any], console: Console) -> None:
    """Print a line for each stray guest, and a remedy for each reason that guests are stray."""
    strays = answer["strays"]
    if not strays:
        console.print("No stray guests: every reported guest is where its server is recorded.")
        return
    table = plain_table("Host", "Guest", "State", "Since", "Reason")
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
        console.print(f"Show more with --marker {strays[-1]['id']}")
