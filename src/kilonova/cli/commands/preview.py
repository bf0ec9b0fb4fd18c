# SPDX-License-Identifier: Apache-2.0
"""``kilonova preview``: what a change of an aggregate or a host would do to the servers and to recent requests."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.jobs import ended_job
from kilonova.cli.cloud.options import OPERATOR, AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.policy_changes import pairs
from kilonova.cli.cloud.printing import output_console, print_json
from kilonova.cli.commands.diff import print_diff

app = typer.Typer(
    help="Show what a change of an aggregate or a host would do (exit code 1 if anything).", no_args_is_help=True
)
Days = Annotated[float, typer.Option(metavar="N", min=0, help="Repeat the requests of the last N days.")]
_MOST_ROWS = 50
_VERDICTS = ("elsewhere", "fails", "fits")


@app.command()
def aggregate(
    name: Annotated[str, typer.Argument(metavar="NAME|ID", help="The aggregate.")],
    metadata: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key of its metadata.")
    ] = None,
    unset: Annotated[list[str] | None, typer.Option(metavar="KEY", help="Remove a key of its metadata.")] = None,
    add_host: Annotated[list[str] | None, typer.Option(metavar="HOST", help="Add a host to it.")] = None,
    remove_host: Annotated[list[str] | None, typer.Option(metavar="HOST", help="Remove a host from it.")] = None,
    days: Days = 7,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Show what other metadata or hosts of an aggregate would do. Nothing is changed."""
    change: dict[str, Any] = {
        "metadata": {**pairs("--set", metadata or ()), **dict.fromkeys(unset or ())},
        "add_hosts": add_host or [],
        "remove_hosts": remove_host or [],
    }
    given = {field: value for field, value in change.items() if value}
    if not given:
        raise typer.BadParameter("Name a change: --set, --unset, --add-host or --remove-host.")
    _show({"aggregates": {name: given}, "days": days}, data, os_cloud, as_json=as_json)


@app.command()
def host(
    name: Annotated[str, typer.Argument(metavar="HOST", help="The compute host.")],
    disable: Annotated[bool, typer.Option("--disable", help="As if its compute service were disabled.")] = False,
    enable: Annotated[bool, typer.Option("--enable", help="As if its compute service were enabled.")] = False,
    days: Days = 7,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Show what disabling or enabling a host would do. Its servers stay on it. Nothing is changed."""
    if disable == enable:
        raise typer.BadParameter("Choose one of --disable and --enable.")
    _show({"hosts": {name: {"disabled": disable}}, "days": days}, data, os_cloud, as_json=as_json)


def _show(body: Mapping[str, Any], data: Any, os_cloud: str | None, *, as_json: bool) -> None:
    """Print the preview. Raises: Exit with 1, if the change does anything."""
    cloud = connect(data, os_cloud)
    found: dict[str, Any] = cloud.call("POST", OPERATOR, "/preview", json=body)
    if "job" in found:
        found = ended_job(cloud, "preview", found["job"]["id"], shows_progress=not as_json)["result"]
    if as_json:
        print_json(found)
    else:
        print_preview(found)
    if found["violations"] or any(found["requests"]["counts"][verdict] for verdict in _VERDICTS):
        raise typer.Exit(1)


def print_preview(found: dict[str, Any]) -> None:
    """Print the servers that would violate the change, and the requests that it would hit."""
    console = output_console()
    if found["servers"]:
        table = Table("Server", "Name", "Host", "Violates", box=None, pad_edge=False)
        for each in found["servers"][:_MOST_ROWS]:
            why = f"{each['rule']}: {each['reason']}"
            table.add_row(*(Text(text) for text in (each["server"], each["name"], each["host"], why)))
        console.print(table)
        if found["violations"] > _MOST_ROWS:
            console.print(Text(f"… {_MOST_ROWS} of {found['violations']} servers; --json lists more."))
    console.print(Text(f"{found['violations']} servers would violate a rule on their present hosts."))
    console.print(Text(f"Requests of the last {found['days']:g} days:"))
    print_diff(found["requests"])
