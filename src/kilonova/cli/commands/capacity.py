# SPDX-License-Identifier: Apache-2.0
"""``kilonova capacity``: shows how many more servers of each flavor fit, and what refuses the next one."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.jobs import run_job
from kilonova.cli.cloud.options import OPERATOR, AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.printing import hosts_text, output_console, plain_table, print_json
from kilonova.cli.commands.whatif import hints_of


def capacity(
    flavor: Annotated[
        list[str] | None, typer.Option(metavar="NAME|ID", help="A flavor; repeatable; default: all enabled flavors.")
    ] = None,
    image: Annotated[str | None, typer.Option(metavar="NAME|ID", help="The image; default: none.")] = None,
    project: Annotated[str | None, typer.Option(metavar="ID", help="The project; default: your own.")] = None,
    zone: Annotated[str | None, typer.Option(metavar="ZONE[:HOST[:NODE]]", help="The availability zone.")] = None,
    hint: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A scheduler hint; repeatable.")] = None,
    group: Annotated[str | None, typer.Option(metavar="ID", help="The server group.")] = None,
    as_job: Annotated[
        bool, typer.Option("--job", help="Count in a job: at most 1000 flavors, without the time limit of a request.")
    ] = False,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Show how many more servers of each flavor fit, and why the next one would be refused. Nothing changes."""
    given = {
        "flavors": list(flavor or ()),
        "image": image,
        "availability_zone": zone,
        "group": group,
        "project_id": project,
        "hints": hints_of(hint or ()),
    }
    body = {name: value for name, value in given.items() if value}
    cloud = connect(data, os_cloud)
    found: dict[str, Any]
    if as_job:
        found = run_job(cloud, "capacity", body, shows_progress=not as_json)
    else:
        found = cloud.call("POST", OPERATOR, "/capacity", json=body)
    if as_json:
        print_json(found)
        return
    console = output_console()
    console.print(capacity_table(found))
    console.print()
    console.print(Text(f"Each flavor is counted alone, after change {found['seq']} of the cloud.", style="dim"))


def capacity_table(found: Mapping[str, Any]) -> Table:
    """Return a row for each flavor: the number of servers that fit, and the rules that refuse the next one."""
    table = plain_table()
    table.add_column("Flavor", overflow="fold")
    table.add_column("Fit", justify="right")
    table.add_column("The next is refused by", overflow="fold", ratio=1)
    for each in found["next"]:
        fits = found["fits"][each["flavor"]]
        number = Text("no limit" if fits is None else str(fits), style="red" if fits == 0 else "green")
        table.add_row(Text(each["flavor"]), number, _reasons_text(each["reasons"]))
    return table


def _reasons_text(reasons: Sequence[Mapping[str, Any]]) -> Text:
    return Text("\n".join(f"{each['rule']}: {_of_hosts(each)}{each['reason']}" for each in reasons), style="yellow")


def _of_hosts(reason: Mapping[str, Any]) -> str:
    return f"{hosts_text(reason['hosts'])}, " if reason["hosts"] else ""
