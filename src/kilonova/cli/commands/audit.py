# SPDX-License-Identifier: Apache-2.0
"""``kilonova audit``: checks a running cloud for isolation leaks, unread properties and stray ports."""

from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, Api, AsJson, DataFolder, connect
from kilonova.cli.cloud.printing import counted, hosts_text, output_console, plain_table, print_json, unread_lines
from kilonova.cli.commands.audit_ports import ports
from kilonova.cli.exit_codes import one_is_an_answer

_SERVERS_SHOWN = 10
_COLORS = {"leak": "red", "fault": "yellow", "note": "cyan"}
_ANY_OTHER = "*"

app = typer.Typer(
    no_args_is_help=True,
    help="Find hosts that accept servers that they must not run, properties that no rule reads, and stray ports.",
)


app.command()(ports)


@app.callback()
def audit() -> None:
    """Find hosts that accept servers that they must not run, properties that no rule reads, and stray ports."""


@app.command()
@one_is_an_answer()
def isolation(
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> int:
    """Check every flavor with every image and project on every host for isolation leaks; exit code 1 if any exist."""
    return report_isolation(connect(data, os_cloud), as_json=as_json)


@app.command()
@one_is_an_answer()
def rules(
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> int:
    """List properties of flavors, images and aggregates that no rule reads; exit code 1 if there are any."""
    return report_unread(connect(data, os_cloud), as_json=as_json)


def report_unread(api: Api, *, as_json: bool) -> int:
    """Print the properties that no rule reads. Return the exit code: 1 if there are such properties."""
    report: Mapping[str, Any] = api.get(OPERATOR, "/rules")["rules"]
    if as_json:
        print_json({"rules": report})
    else:
        show_unread(report, output_console())
    return 0 if report["clean"] else 1


def show_unread(report: Mapping[str, Any], console: Console) -> None:
    """Print the properties that no rule reads, or why they are unknown, and how many objects were examined."""
    for line in unread_lines(report):
        console.print(line, soft_wrap=True)
    examined = report["examined"]
    console.print(
        f"Examined: {counted(examined['flavors'], 'flavor')}, {counted(examined['images'], 'image')},"
        f" {counted(examined['aggregates'], 'aggregate')}."
    )
    if report["unread"]:
        console.print(Text(f"{len(report['unread'])} found.", style="red"))
    elif not report["may_read_anything"]:
        console.print(Text("Every property is read by a rule.", style="green"))


def report_isolation(api: Api, *, as_json: bool) -> int:
    """Print the isolation audit of a cloud. Return the exit code: 1 if it has findings other than notes."""
    report: Mapping[str, Any] = api.get(OPERATOR, "/isolation")["isolation"]
    if as_json:
        print_json({"isolation": report})
    else:
        show(report, output_console())
    return 0 if report["clean"] else 1


def show(report: Mapping[str, Any], console: Console) -> None:
    """Print the isolated pools of hosts, the findings, and how many objects were examined."""
    if report["pools"]:
        console.print(_pools(report))
        console.print()
    for finding in report["findings"]:
        _show_finding(finding, report["examined"]["projects"], console)
    examined = report["examined"]
    console.print(
        f"Examined: {counted(examined['flavors'], 'flavor')}, {counted(examined['images'], 'image')} and an image"
        f" without properties, which form {counted(examined['combinations'], 'kind')} of servers; also"
        f" {counted(examined['servers'], 'running server')}."
    )
    found = [finding for finding in report["findings"] if finding["severity"] != "note"]
    if found:
        console.print(Text(f"{len(found)} found.", style="red"))
    else:
        console.print(Text("Nothing leaks.", style="green"))


def _pools(report: Mapping[str, Any]) -> Table:
    table = plain_table()
    for name, ratio in (("Aggregates", 2), ("Only", 3), ("Hosts", 2), ("May enter, and only there", 5)):
        table.add_column(name, overflow="fold", ratio=ratio)
    for pool in report["pools"]:
        known = report["examined"]["projects"]
        groups = [Text(group_text(group, known)) for group in pool["may_enter"]]
        entering = Text("\n").join(groups) if groups else Text("no server", "yellow")
        table.add_row(", ".join(pool["aggregates"]), pool["rule"], ", ".join(pool["hosts"]) or "none", entering)
    table.add_row("", "", ", ".join(report["open_hosts"]) or "none", Text("all other servers", style="dim"))
    return table


def group_text(group: Mapping[str, Any], known: Sequence[str]) -> str:
    """Return a one-line description of a group of servers. ``known``: all projects that the audit distinguishes."""
    projects = [name for name in group["projects"] if name != _ANY_OTHER]
    if set(group["projects"]) == set(known):
        where = "any project"
    elif _ANY_OTHER in group["projects"]:
        where = " or ".join([*(f"project {name}" for name in projects), "a project that no rule names"])
    else:
        where = f"project {', '.join(projects)}"
    return f"{', '.join(group['flavors'])} with {', '.join(group['images'])}, {where}"


def _show_finding(finding: Mapping[str, Any], known: Sequence[str], console: Console) -> None:
    console.print(Text(f"{finding['severity']}: {finding['kind']}", style=_COLORS.get(finding["severity"], "")))
    lines = [finding["what"]]
    lines += [f"rule: {rule}" for rule in finding["rules"]]
    if finding["hosts"]:
        lines.append(f"{hosts_text(len(finding['hosts']))}: {', '.join(finding['hosts'])}")
    lines += _servers(finding["servers"])
    lines += [f"who: {group_text(group, known)}" for group in finding["who"]]
    lines.append(finding["remedy"])
    for line in lines:
        console.print(Text(f"    {line}"))
    console.print()


def _servers(servers: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [f"server {each['name']} ({each['id']}) on {each['host']}" for each in servers[:_SERVERS_SHOWN]]
    if len(servers) > _SERVERS_SHOWN:
        lines.append(f"and {len(servers) - _SERVERS_SHOWN} more; --json lists all")
    return lines
