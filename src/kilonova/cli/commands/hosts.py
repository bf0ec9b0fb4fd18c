# SPDX-License-Identifier: Apache-2.0
"""``kilonova hosts``: lists hosts with their agents, and stray guests with their remedies."""

from typing import Annotated

import typer

from kilonova.cli.cloud.options import AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.commands.agents_of_hosts import list_agents
from kilonova.cli.commands.evacuate_hosts import evacuate
from kilonova.cli.commands.strays import list_strays, remove_guest

app = typer.Typer(invoke_without_command=True, help="List hosts with their agents, and stray guests.")
app.command("remove-guest")(remove_guest)
app.command("evacuate")(evacuate)


@app.callback()
def hosts(
    context: typer.Context,
    strays: Annotated[
        bool,
        typer.Option(
            "--strays", help=("List stray guests, which are not where their servers are recorded, instead of hosts.")
        ),
    ] = False,
    host: Annotated[str, typer.Option(metavar="HOST", help="List only this host, or only its stray guests.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of entries.")] = 100,
    marker: Annotated[str, typer.Option(metavar="LAST", help="List only entries after this one.")] = "",
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """List hosts with the processes of their agents, or list stray guests (--strays)."""
    if context.invoked_subcommand is None:
        query = {"host": host, "marker": marker, "limit": str(limit)}
        list_these = list_strays if strays else list_agents
        list_these(connect(data, os_cloud), query, as_json=as_json)
