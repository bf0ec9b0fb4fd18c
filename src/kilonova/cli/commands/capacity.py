# SPDX-License-Identifier: Apache-2.0
"""``kilonova capacity``: shows how many more servers of each flavor fit, and what refuses the next one."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.jobs import run_job
from kilonova.cli.cloud.losses import lose_of, losses_table, summary
from kilonova.cli.cloud.options import OPERATOR, AdminCloud, AsJson, DataFolder, WritableApi, connect
from kilonova.cli.cloud.printing import hosts_text, output_console, plain_table, print_json
from kilonova.cli.commands.whatif import hints_of
from kilonova.errors import InvalidRequest

_OF_EACH = "Each flavor is counted alone, after change {seq} of the cloud."
_OF_MIX = "{fits} servers of the mix fit, one after the other by their shares, after change {seq} of the cloud."


class Division(StrEnum):
    """By what an answer is divided."""

    AGGREGATE = "aggregate"
    ZONE = "zone"


def capacity(
    flavor: Annotated[
        list[str] | None, typer.Option(metavar="NAME|ID", help="A flavor; repeatable; default: all enabled flavors.")
    ] = None,
    image: Annotated[str | None, typer.Option(metavar="NAME|ID", help="The image; default: none.")] = None,
    project: Annotated[str | None, typer.Option(metavar="ID", help="The project; default: your own.")] = None,
    zone: Annotated[str | None, typer.Option(metavar="ZONE[:HOST[:NODE]]", help="The availability zone.")] = None,
    hint: Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="A scheduler hint; repeatable.")] = None,
    group: Annotated[str | None, typer.Option(metavar="ID", help="The server group.")] = None,
    mix: Annotated[
        str | None, typer.Option(metavar="FLAVOR=SHARE,…", help="Count flavors together, by shares, instead of alone.")
    ] = None,
    by: Annotated[Division | None, typer.Option(help="Divide the numbers and reasons by aggregate or zone.")] = None,
    with_stranded: Annotated[
        bool, typer.Option("--stranded", help="Show the free resources that none of the flavors can use, by cause.")
    ] = False,
    lose: Annotated[
        str | None,
        typer.Option(metavar="host|zone|K", help="Show whether all servers fit elsewhere if hosts are lost instead."),
    ] = None,
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
        "mix": None if mix is None else mix_of(mix),
        "by": None if by is None else by.value,
        "stranded": with_stranded,
        "image": image,
        "availability_zone": zone,
        "group": group,
        "project_id": project,
        "hints": hints_of(hint or ()),
    }
    body = {name: value for name, value in given.items() if value}
    if lose is not None:
        if body or as_job:
            raise InvalidRequest("--lose has no other options than --json, --data and --os-cloud")
        _show_losses(lose_of(lose), connect(data, os_cloud), as_json=as_json)
        return
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
    if by is not None:
        console.print()
        console.print(division_table(found, by.value))
    if with_stranded:
        console.print()
        console.print(stranded_table(found["stranded"]))
    console.print()
    console.print(Text(_summary(found), style="dim"))


def _show_losses(lose: str | int, cloud: WritableApi, *, as_json: bool) -> None:
    """Run a job and print its result. Raises: typer.Exit with code 1, if not all servers fit elsewhere."""
    found: dict[str, Any] = run_job(cloud, "n-plus-one", {"lose": lose}, shows_progress=not as_json)
    if as_json:
        print_json(found)
    else:
        console = output_console()
        if found["losses"]:
            console.print(losses_table(found))
            console.print()
        console.print(Text(summary(found), style="dim"))
    if not found["survives"]:
        raise typer.Exit(1)


def mix_of(text: str) -> list[dict[str, Any]]:
    """Parse ``FLAVOR=SHARE,FLAVOR=SHARE``. Raises: InvalidRequest."""
    found: list[dict[str, Any]] = []
    for each in text.split(","):
        flavor, _, share = each.rpartition("=")
        if not flavor or not share.isascii() or not share.isdigit() or not int(share):
            raise InvalidRequest(f"--mix must be FLAVOR=SHARE,… with shares of at least 1, not {each!r}")
        found.append({"flavor": flavor, "share": int(share)})
    return found


def _summary(found: Mapping[str, Any]) -> str:
    mix = found.get("mix")
    if mix is None:
        return _OF_EACH.format(seq=found["seq"])
    return _OF_MIX.format(seq=found["seq"], fits="Any number of" if mix["fits"] is None else mix["fits"])


def capacity_table(found: Mapping[str, Any]) -> Table:
    """Return a row for each flavor: the number of servers that fit, and the rules that refuse the next one."""
    table = plain_table()
    table.add_column("Flavor", overflow="fold")
    table.add_column("Fit", justify="right")
    table.add_column("The next is refused by", overflow="fold", ratio=1)
    reasons = {each["flavor"]: each["reasons"] for each in found["next"]}
    for flavor, fits in found["fits"].items():
        table.add_row(Text(flavor), _number(fits), _reasons_text(reasons.get(flavor, ())))
    return table


def division_table(found: Mapping[str, Any], by: str) -> Table:
    """Return a row for each flavor and each aggregate or zone. ``by``: ``aggregate`` or ``zone``."""
    table = plain_table()
    for title in ("Flavor", by.capitalize()):
        table.add_column(title, overflow="fold")
    for title in ("Hosts", "Fit"):
        table.add_column(title, justify="right")
    table.add_column("The next is refused by", overflow="fold", ratio=1)
    for each in found["next"]:
        for place in each["by"]:
            name = "(none)" if place[by] is None else place[by]
            hosts = Text(str(place["hosts"]))
            table.add_row(
                Text(each["flavor"]), Text(name), hosts, _number(place["fits"]), _reasons_text(place["reasons"])
            )
    return table


def stranded_table(found: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a row for each resource class: how much of it no flavor can use, and the causes."""
    table = plain_table()
    table.add_column("Resource", overflow="fold")
    for title in ("Capacity", "Free", "Stranded", "Share"):
        table.add_column(title, justify="right")
    table.add_column("Because of", overflow="fold", ratio=1)
    for name, each in found.items():
        causes = [f"{cause['rule']}: {cause['amount']} on {hosts_text(cause['hosts'])}" for cause in each["causes"]]
        numbers = (str(each["capacity"]), str(each["free"]), str(each["stranded"]), f"{each['share']:.1%}")
        table.add_row(Text(name), *numbers, Text("\n".join(causes), style="yellow"))
    return table


def _number(fits: int | None) -> Text:
    return Text("no limit" if fits is None else str(fits), style="red" if fits == 0 else "green")


def _reasons_text(reasons: Sequence[Mapping[str, Any]]) -> Text:
    return Text("\n".join(f"{each['rule']}: {_of_hosts(each)}{each['reason']}" for each in reasons), style="yellow")


def _of_hosts(reason: Mapping[str, Any]) -> str:
    return f"{hosts_text(reason['hosts'])}, " if reason["hosts"] else ""
