# SPDX-License-Identifier: Apache-2.0
"""``kilonova diff``: which of the last scheduling decisions a change of policy would change, and by which rule."""

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.jobs import run_job
from kilonova.cli.cloud.options import AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.policy_changes import change_body
from kilonova.cli.cloud.printing import output_console, print_json

_MOST_ROWS = 50
_VERDICTS = ("elsewhere", "fails", "fits")
_EFFECTS = {
    "rejects": "{rule} rejects {from_}",
    "allows": "{rule} no longer rejects {to}",
    "prefers": "{rule} prefers {to}",
    "fails": "{rule}: {reason}",
    "follows": "{reason}",
}


def diff(
    last: Annotated[int, typer.Option(metavar="N", min=1, help="Decisions to repeat, the newest.")] = 10_000,
    options: Annotated[
        list[str] | None, typer.Option("--set", metavar="OPTION=VALUE", help="Another value of a scheduler option.")
    ] = None,
    enable: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Enable a filter, weigher or request filter.")
    ] = None,
    disable: Annotated[
        list[str] | None, typer.Option(metavar="RULE", help="Disable a filter, weigher or request filter.")
    ] = None,
    weight: Annotated[
        list[str] | None, typer.Option(metavar="WEIGHER=MULTIPLIER", help="Another multiplier of a weigher.")
    ] = None,
    aggregate: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:KEY[=VALUE]", help="Set or remove metadata of an aggregate (name or id)."),
    ] = None,
    flavor: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:KEY[=VALUE]", help="Set or remove an extra spec of a flavor (name or id)."),
    ] = None,
    own_filter: Annotated[
        list[str] | None,
        typer.Option("--filter", metavar="MODULE:CLASS", help="Add a filter of your own; needs --config-file."),
    ] = None,
    config_file: Annotated[
        list[str] | None,
        typer.Option("--config-file", metavar="FILE", help="Repeat in this process, on the database of this file."),
    ] = None,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Repeat the last decisions under a change of policy, and show which differ (exit code 1 if any)."""
    body = change_body(
        options=options or (),
        enable=enable or (),
        disable=disable or (),
        multipliers=weight or (),
        aggregates=aggregate or (),
        flavors=flavor or (),
    )
    body |= {"last": last}
    if config_file:
        from kilonova.cli.wiring.local_diff import local_diff  # noqa: PLC0415 - slow to import

        found: dict[str, Any] = local_diff(config_file, body, tuple(own_filter or ()))
    elif own_filter:
        raise typer.BadParameter("Filters of your own are tried on the control host, with --config-file.")
    else:
        found = run_job(connect(data, os_cloud), "diff", body, shows_progress=not as_json)
    if as_json:
        print_json(found)
    else:
        print_diff(found)
    if any(found["counts"][verdict] for verdict in _VERDICTS):
        raise typer.Exit(1)


def print_diff(found: dict[str, Any]) -> None:
    """Print the differences, the rules that make them, and what could not be repeated."""
    console, counts = output_console(), found["counts"]
    if found["differences"]:
        table = Table("Decided at", "Server", "From", "To", "Rule", box=None, pad_edge=False)
        for each in found["differences"][-_MOST_ROWS:]:
            why = _EFFECTS[each["effect"]].format(
                rule=each["rule"], reason=each["reason"], from_=each["from"] or "all hosts", to=each["to"] or "a host"
            )
            places = (each["from"] or "no host", each["to"] or "no host")
            table.add_row(*(Text(text) for text in (each["created_at"][:19], each["server"], *places, why)))
        console.print(table)
        if len(found["differences"]) > _MOST_ROWS:
            console.print(Text(f"… the newest {_MOST_ROWS}; --json lists more."))
    console.print(
        Text(
            f"{found['decisions']} decisions: {counts['same']} same, {counts['elsewhere']} on another host, "
            f"{counts['fails']} without a host now, {counts['fits']} with a host now"
        )
    )
    for each in found["rules"]:
        told = [f"{each[verdict]} {verdict}" for verdict in _VERDICTS if each[verdict]]
        console.print(Text(f"  {each['rule']}: {', '.join(told)}"))
    for each in found["undecided"]:
        console.print(Text(f"{each['decisions']} could not be repeated: {each['reason']}"))
    for note in found["notes"]:
        console.print(Text(note))
