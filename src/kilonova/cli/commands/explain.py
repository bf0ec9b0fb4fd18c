# SPDX-License-Identifier: Apache-2.0
"""``kilonova explain``: shows stored scheduling decisions rule by rule, and why hosts were rejected."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, Api, AsJson, DataFolder, connect
from kilonova.cli.cloud.printing import (
    hosts_table,
    hosts_text,
    output_console,
    plain_table,
    print_json,
    ranking_table,
    removed_text,
    unread_lines,
)
from kilonova.cli.cloud.server_names import server_id
from kilonova.errors import InvalidRequest, NotFound

Decisions = Sequence[Mapping[str, Any]]
_HOSTS_SHOWN = 1000
_ID = re.compile(r"[\w.-]+", re.ASCII)
_REQUEST_ID = re.compile(r"req-[0-9a-f-]{36}")


def explain(
    name: Annotated[str, typer.Argument(metavar="REQUEST_ID|SERVER", help="A request id, or a server's name or id.")],
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    replay: Annotated[bool, typer.Option("--replay", help="Repeat the decision, and show differences.")] = False,
    hosts: Annotated[bool, typer.Option("--hosts", help="Show every host with all reasons that rejected it.")] = False,
    host: Annotated[str, typer.Option(metavar="NAME", help="Show all reasons that rejected this host.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show which hosts each rule rejected for a server, and how the remaining hosts were ranked."""
    query = query_of(replay=replay, hosts=hosts, host=host)
    decisions = find_decisions(connect(data, os_cloud), name, **query)
    if as_json:
        print_json({"decisions": decisions})
        return
    show(decisions, output_console())


def query_of(*, replay: bool, hosts: bool, host: str) -> dict[str, str]:
    """Return the query parameters for the operator API."""
    query = {"replay": "true"} if replay else {}
    if hosts or host:
        query |= {"hosts": "true", "limit": str(_HOSTS_SHOWN)}
    if host:
        query["host"] = host
    return query


def find_decisions(api: Api, name: str, **query: str) -> Decisions:
    """Return the decisions of a request, or of a server (newest first). Raises: InvalidRequest if there are none."""
    try:
        return _decisions(api, name, query)
    except NotFound:
        if _REQUEST_ID.fullmatch(name):
            raise InvalidRequest(f"no decision is stored for request {name}") from None
    uuid = server_id(api, name, neither="no server or request")
    try:
        return _decisions(api, uuid, query)
    except NotFound:
        raise InvalidRequest(f"no decision is stored for server {name} ({uuid})") from None


def _decisions(api: Api, name: str, query: Mapping[str, str]) -> Decisions:
    if not _ID.fullmatch(name):
        raise NotFound(f"{name!r} is not an id")
    found: Decisions = api.get(OPERATOR, f"/decisions/{name}", **query)["decisions"]
    return found


def show(decisions: Decisions, console: Console) -> None:
    """Print each decision: the hosts that each rule rejected, and the ranking of the remaining hosts."""
    attempts = _attempts(decisions)
    for number, decision in enumerate(decisions):
        if number:
            console.print()
        _show_one(decision, attempts[number], console)
    if lines := unread_lines(*decisions):
        console.print()
        for line in lines:
            console.print(line, soft_wrap=True)


def _attempts(decisions: Decisions) -> Sequence[int]:
    """Return the attempt number of each decision, counted separately for each server and request."""
    made: dict[tuple[str, str], int] = {}
    numbers = dict.fromkeys(range(len(decisions)), 0)
    for number in sorted(numbers, key=lambda number: str(decisions[number]["created_at"])):
        key = decisions[number]["server_id"], decisions[number]["request_id"]
        numbers[number] = made[key] = made.get(key, 0) + 1
    return list(numbers.values())


def _show_one(decision: Mapping[str, Any], attempt: int, console: Console) -> None:
    steps, ranked = decision["steps"], decision["ranked"]
    move = f", {decision['move']}" if decision.get("move") else ""
    again = f", attempt {attempt}" if attempt > 1 else ""
    console.print(Text(f"Server {decision['server_id']}{move}{again}", style="bold"))
    console.print(f"request {decision['request_id']}, decided {decision['created_at']}")
    if decision["forced"]:
        console.print("The host was forced: no filter ran.")
    console.print()
    console.print(_funnel(steps))
    console.print()
    _show_ranking(decision, ranked, console)
    if "replay" in decision:
        console.print()
        _show_replay(decision["replay"], console)


def _show_ranking(decision: Mapping[str, Any], ranked: Sequence[Mapping[str, Any]], console: Console) -> None:
    if not ranked:
        console.print(Text("No host was left.", style="red"))
        return
    console.print(ranking_table(ranked, decision["chosen"]))
    console.print()
    console.print(
        Text(f"Chosen: {decision['chosen'] or 'none'}, of {hosts_text(decision['survivors'])} left.", style="green")
    )


def _show_replay(replay: Mapping[str, Any], console: Console) -> None:
    if not replay["possible"]:
        console.print(Text(f"The decision cannot be repeated. {replay['reason']}", style="yellow"))
        return
    for note in replay["notes"]:
        console.print(Text(f"Note: {note}", style="yellow"))
    if replay["identical"]:
        console.print(Text("The repeated decision is identical.", style="green"))
    else:
        console.print(Text("The repeated decision differs:", style="red"))
        for difference in replay["differences"]:
            console.print(Text(f"  {difference}"))
    if "hosts" in replay:
        console.print()
        console.print(hosts_table(replay["hosts"]))
        if more := replay["matching_hosts"] - len(replay["hosts"]):
            console.print(f"and {more} more hosts: select one with --host")


def _funnel(steps: Sequence[Mapping[str, Any]]) -> Table:
    table = plain_table()
    table.add_column("Rule", overflow="fold")
    table.add_column("In", justify="right")
    table.add_column("Out", justify="right")
    table.add_column("Removed, and why", overflow="fold", ratio=1)
    for step in steps:
        removed = step["hosts_in"] - step["hosts_out"]
        why = Text()
        if removed:
            why = removed_text(step)
        counts = (str(step["hosts_in"]), str(step["hosts_out"]))
        table.add_row(step["rule"], *counts, why, style=None if removed else "dim")
    return table
