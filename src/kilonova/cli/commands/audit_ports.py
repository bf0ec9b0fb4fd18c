# SPDX-License-Identifier: Apache-2.0
"""``kilonova audit ports``: lists stray ports, and deletes those that no server can need."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any
from urllib.parse import parse_qsl, urlsplit

import typer
from rich.console import Console
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, Api, AsJson, DataFolder, WritableApi, connect
from kilonova.cli.cloud.printing import counted, duration_text, output_console, plain_table, print_json
from kilonova.cli.exit_codes import one_is_an_answer
from kilonova.errors import Conflict, NotFound


@one_is_an_answer()
def ports(
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the ports of deleted servers that Kilonova created.")
    ] = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> int:
    """List ports whose server does not exist, and interfaces whose port does not exist; exit code 1 if any are left."""
    return report_ports(connect(data, os_cloud), delete=delete, as_json=as_json)


def report_ports(api: WritableApi, *, delete: bool, as_json: bool) -> int:
    """Print the stray ports; ``delete``: delete the removable ones before. Return the exit code: 1 if any are left."""
    strays = _all(api)
    removed = _deleted(api, strays) if delete else []
    left = [each for each in strays if each["port"] not in removed]
    if as_json:
        print_json({"stray_ports": left, "deleted": removed} if delete else {"stray_ports": left})
    else:
        console = output_console()
        if delete:
            console.print(f"Deleted: {counted(len(removed), 'port')}.")
        show_ports(left, console)
    return 1 if left else 0


def _all(api: Api) -> list[Mapping[str, Any]]:
    """Return the stray ports of all pages."""
    strays: list[Mapping[str, Any]] = []
    query: dict[str, str] = {}
    while True:
        answer = api.get(OPERATOR, "/stray-ports", **query)
        strays += answer["stray_ports"]
        if not answer.get("stray_ports_links"):
            return strays
        query = dict(parse_qsl(urlsplit(answer["stray_ports_links"][0]["href"]).query))


def _deleted(api: WritableApi, strays: Sequence[Mapping[str, Any]]) -> list[str]:
    """Delete the removable ports; return those that are gone."""
    gone = []
    for each in strays:
        if not each["removable"]:
            continue
        try:
            api.call("POST", OPERATOR, "/stray-ports/remove", json={"remove": {"port": each["port"]}})
        except NotFound:
            pass  # the port has been deleted meanwhile
        except Conflict:
            continue
        gone.append(each["port"])
    return gone


def show_ports(strays: Sequence[Mapping[str, Any]], console: Console, now: datetime | None = None) -> None:
    """Print a line for each stray port, and the remedy for each reason."""
    if not strays:
        console.print("No stray ports: every port of a server is one of its interfaces.")
        return
    table = plain_table("Port", "Server", "Host", "Age", "By Kilonova", "Reason")
    for each in strays:
        created = "yes" if each["created_by_kilonova"] else "no"
        age = _age(each["created_at"], now or datetime.now(UTC))
        table.add_row(each["port"], each["server"], each["host"] or "", age, created, each["reason"])
    console.print(table)
    for reason in sorted({each["reason"] for each in strays}):
        these = [each for each in strays if each["reason"] == reason]
        console.print()
        console.print(Text(f"{reason}: {counted(len(these), 'port')}", style="yellow"))
        console.print(Text(f"{these[0]['what']} {these[0]['remedy']}"))


def _age(created_at: str | None, now: datetime) -> str:
    if created_at is None:
        return ""
    return duration_text(int((now - datetime.fromisoformat(created_at)).total_seconds()))
