# SPDX-License-Identifier: Apache-2.0
"""``kilonova explain``: what the scheduler decided, rule by rule, and why no other host."""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Protocol

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kilonova.errors import InvalidRequest, NotFound

Decisions = Sequence[Mapping[str, Any]]
OPERATOR = "kilonova"
_WIDTH_OF_A_PIPE = 120
_REQUEST_ID = re.compile(r"req-[0-9a-f-]{36}")


class Api(Protocol):
    """The calls that are needed of a connection to a cloud."""

    def get(self, service: str, path: str, version: str | None = None, **query: str) -> Any: ...


def explain(
    name: Annotated[str, typer.Argument(metavar="REQUEST_ID|SERVER", help="A request id, or a server's name or id.")],
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Data folder of the cloud that `kilonova up` runs.")
    ] = None,
    os_cloud: Annotated[
        str | None, typer.Option(metavar="NAME", help="Cloud of an administrator in clouds.yaml; default: kilonova.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the operator API answers.")] = False,
) -> None:
    """Say which rules removed which hosts for a server, and how the rest was ranked."""
    from kilonova.cli.connection import Connection, find_cloud  # noqa: PLC0415  # slow to import

    decisions = find_decisions(Connection(find_cloud(data, os_cloud)), name)
    if as_json:
        json.dump({"decisions": decisions}, sys.stdout, indent=2)
        print()
        return
    show(decisions, output_console())


def find_decisions(api: Api, name: str) -> Decisions:
    """Return the decisions of a request or a server, oldest first. Raises: InvalidRequest when there are none."""
    try:
        return _decisions(api, name)
    except NotFound:
        if _REQUEST_ID.fullmatch(name):
            raise InvalidRequest(f"no decision is kept for request {name}") from None
    uuid = _server_id(api, name)
    try:
        return _decisions(api, uuid)
    except NotFound:
        raise InvalidRequest(f"no decision is kept for server {name} ({uuid})") from None


def _decisions(api: Api, name: str) -> Decisions:
    if not re.fullmatch(r"[\w.-]+", name, re.ASCII):
        raise NotFound(f"{name!r} is no id")
    found: Decisions = api.get(OPERATOR, f"/decisions/{name}")["decisions"]
    return found


def _server_id(api: Api, name: str) -> str:
    listed = api.get("compute", "/servers", name=f"^{re.escape(name)}$", all_tenants="1")["servers"]
    found = [server["id"] for server in listed if server["name"] == name]
    if len(found) > 1:
        raise InvalidRequest(f"{len(found)} servers are called {name}; give an id: {', '.join(found)}")
    if not found:
        raise InvalidRequest(f"no server and no request is called {name}")
    return str(found[0])


def show(decisions: Decisions, console: Console) -> None:
    """Print one funnel for each decision."""
    attempts: dict[str, int] = {}
    for number, decision in enumerate(decisions):
        if number:
            console.print()
        server = decision["server_id"]
        attempts[server] = attempts.get(server, 0) + 1
        _show_one(decision, attempts[server], console)


def _show_one(decision: Mapping[str, Any], attempt: int, console: Console) -> None:
    steps, ranked = decision["steps"], decision["ranked"]
    again = f", attempt {attempt}" if attempt > 1 else ""
    console.print(Text(f"Server {decision['server_id']}{again}", style="bold"))
    console.print(f"request {decision['request_id']}, decided {decision['created_at']}")
    if decision["forced"]:
        console.print("The host was forced: no filter was asked.")
    console.print()
    console.print(_funnel(steps))
    console.print()
    if not ranked:
        console.print(Text("No host was left.", style="red"))
        return
    console.print(ranking_table(ranked, decision["chosen"]))
    console.print()
    console.print(
        Text(f"Chosen: {decision['chosen'] or 'none'}, of {hosts_text(decision['survivors'])} left.", style="green")
    )


def _funnel(steps: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
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


def removed_text(step: Mapping[str, Any]) -> Text:
    """Say how many hosts a step removed and why, and which ones where that is known."""
    text = Text()
    text.append(f"{hosts_text(step['hosts_in'] - step['hosts_out'])}, {step['reason']}", style="yellow")
    if step.get("removed"):
        text.append(": ", style="yellow")
        text.append(", ".join(map(host_text, step["removed"])))
    return text


def ranking_table(ranked: Sequence[Mapping[str, Any]], chosen: str | None) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    table.add_column("", width=1)
    table.add_column("Host", overflow="fold")
    table.add_column("Score", justify="right")
    table.add_column("Weighers that count", overflow="fold", ratio=1)
    for host in ranked:
        shares = ", ".join(f"{weigher} {share:+.4g}" for weigher, share in host["weights"].items() if share)
        table.add_row("→" if host["host"] == chosen else "", host_text(host), f"{host['score']:.4f}", shares or "none")
    return table


def output_console() -> Console:
    """Return the console to print on: as wide as the terminal, or of a fixed width into a pipe."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_WIDTH_OF_A_PIPE)


def host_text(place: Mapping[str, Any]) -> str:
    """Name a host, with its hypervisor where that is called otherwise."""
    host, node = str(place["host"]), str(place["node"])
    return host if host == node else f"{host} ({node})"


def hosts_text(count: int) -> str:
    return "1 host" if count == 1 else f"{count} hosts"
