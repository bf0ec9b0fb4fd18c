# SPDX-License-Identifier: Apache-2.0
"""``kilonova whatif``: shows which hosts servers would get, why other hosts are rejected, and the nearest misses."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.printing import (
    host_text,
    hosts_table,
    hosts_text,
    output_console,
    plain_table,
    print_json,
    ranking_table,
    removed_text,
    unread_lines,
)
from kilonova.errors import InvalidRequest

_SERVERS_SHOWN = 10


class Api(Protocol):
    """Interface of a connection, with the only method that this command calls."""

    def call(self, method: str, service: str, path: str, version: str | None = None, **arguments: Any) -> Any: ...


def whatif(
    flavor: Annotated[str, typer.Option(metavar="NAME|ID", help="The flavor.")],
    image: Annotated[str | None, typer.Option(metavar="NAME|ID", help="The image; default: none.")] = None,
    zone: Annotated[str | None, typer.Option(metavar="ZONE[:HOST[:NODE]]", help="The availability zone.")] = None,
    hint: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A scheduler hint; repeatable.")] = None,
    group: Annotated[str | None, typer.Option(metavar="ID", help="The server group.")] = None,
    project: Annotated[str | None, typer.Option(metavar="ID", help="The project; default: your own.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Number of servers, placed one after the other.")] = 1,
    hosts: Annotated[bool, typer.Option("--hosts", help="Show every host with all reasons that reject it.")] = False,
    host_filter: Annotated[str, typer.Option(metavar="TEXT", help="Only hosts with this text in their name.")] = "",
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Show on which hosts servers would be placed, and why. A dry run: nothing changes."""
    given = {"image": image, "availability_zone": zone, "group": group, "project_id": project}
    body = {
        "flavor": flavor,
        "count": count,
        "hints": hints_of(hint or ()),
        **{name: value for name, value in given.items() if value},
    }
    listed = hosts or bool(host_filter) or as_json
    found = ask(connect(data, os_cloud), body, host_filter, with_hosts=listed)
    if as_json:
        print_json(found)
        return
    console = output_console()
    show(found, console)
    if lines := unread_lines(found):
        console.print()
        for line in lines:
            console.print(line, soft_wrap=True)
    if listed:
        console.print()
        console.print(hosts_table(found["hosts"]))


def hints_of(texts: Sequence[str]) -> dict[str, list[str]]:
    """Parse ``KEY=VALUE`` texts; a repeated key has several values. Raises: InvalidRequest."""
    found: dict[str, list[str]] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise InvalidRequest(f"--hint must be KEY=VALUE, not {text!r}")
        found.setdefault(key, []).append(value)
    return found


def ask(api: Api, body: Mapping[str, Any], host_filter: str, *, with_hosts: bool) -> dict[str, Any]:
    """Return the operator API's answer. ``with_hosts``: request all pages of the list of hosts, and merge them."""
    query = {"host": host_filter} if host_filter else {}
    if not with_hosts:
        query["limit"] = "0"
    found: dict[str, Any] = api.call("POST", OPERATOR, "/explain", json=body, params=query)
    page = found
    while page["next_marker"]:
        following = {**query, "marker": page["next_marker"]}
        page = api.call("POST", OPERATOR, "/explain", json=body, params=following)
        found["hosts"] += page["hosts"]
    found["next_marker"] = None
    return found


def show(found: Mapping[str, Any], console: Console) -> None:
    """Print the host of each server; for a single server also rejected hosts, the ranking and nearest misses."""
    servers, number = found["servers"], found["explained_server"]
    server = servers[number - 1]
    if number > 1:
        console.print(Text(f"Server {number} of the request", style="bold"))
    if server["forced"]:
        console.print("The host is forced: no filter runs.")
    console.print(_funnel(server["steps"], found["rules"]))
    console.print()
    if found["fits"]:
        console.print(ranking_table(server["ranked"], server["chosen"]))
        console.print()
        console.print(Text(_placed(servers), style="green"))
        return
    placed = f" {_placed(servers[:-1])}" if number > 1 else ""
    console.print(Text(f"No host is left{f' for server {number}' if number > 1 else ''}.{placed}", style="red"))
    console.print()
    console.print(_nearest(found["nearest_miss"]))


def _placed(servers: Sequence[Mapping[str, Any]]) -> str:
    if len(servers) == 1:
        return f"The server would go to {servers[0]['chosen']}, of {hosts_text(servers[0]['survivors'])} left."
    names = [server["chosen"] for server in servers[:_SERVERS_SHOWN]]
    more = f", and {len(servers) - len(names)} more" if len(servers) > len(names) else ""
    return f"{len(servers)} servers would go to {', '.join(names)}{more}."


def _funnel(steps: Sequence[Mapping[str, Any]], rules: Sequence[Mapping[str, Any]]) -> Table:
    table = plain_table()
    table.add_column("Rule", overflow="fold")
    for title in ("In", "Out", "Fail", "Alone"):
        table.add_column(title, justify="right")
    table.add_column("Removed, and why", overflow="fold", ratio=1)
    asked = {step["rule"]: step for step in steps}
    known = {rule["rule"] for rule in rules}
    # In the table of the second or a later server, the first row is no rule: it counts the hosts left after the
    # previous server.
    earlier = [{**step, "failed": "", "only_hindrance": 0} for step in steps if step["rule"] not in known]
    for rule in (*earlier, *rules):
        step = asked.pop(rule["rule"], None)
        counts = ("", "") if step is None else (str(step["hosts_in"]), str(step["hosts_out"]))
        removed = step is not None and step["hosts_in"] > step["hosts_out"]
        table.add_row(
            rule["rule"],
            *counts,
            str(rule["failed"]),
            str(rule["only_hindrance"] or ""),
            removed_text(step) if step is not None and removed else Text(rule["reason"] if rule["failed"] else ""),
            style=None if removed else "dim",
        )
    return table


def _nearest(misses: Sequence[Mapping[str, Any]]) -> Table | Text:
    if not misses:
        return Text("No small change of the request or of a host would make the server fit.")
    table = plain_table()
    table.add_column("It would fit with", overflow="fold", ratio=1)
    table.add_column("Best host", overflow="fold")
    table.add_column("Hosts", justify="right")
    for miss in misses:
        changes = "; ".join(change["text"] for change in miss["changes"])
        table.add_row(Text(changes), host_text(miss), str(miss["fitting"]))
    return table
