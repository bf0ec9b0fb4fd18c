# SPDX-License-Identifier: Apache-2.0
"""``kilonova hosts``: guests that are not where their servers are recorded, and what to do about them."""

from typing import Annotated

import typer

from kilonova.cli.cloud_options import AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.strays import list_strays, remove_guest

app = typer.Typer(invoke_without_command=True, no_args_is_help=True, help="See what hosts have, and mend it.")
app.command("remove-guest")(remove_guest)


@app.callback()
def hosts(
    context: typer.Context,
    strays: Annotated[
        bool, typer.Option("--strays", help="List guests that are not where their servers are recorded.")
    ] = False,
    host: Annotated[str, typer.Option(metavar="HOST", help="Only those of this host.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 100,
    marker: Annotated[str, typer.Option(metavar="LAST", help="Only those after this one.")] = "",
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """See what hosts have that is not recorded there, and have it removed."""
    if context.invoked_subcommand is None and strays:
        query = {"host": host, "marker": marker, "limit": str(limit)}
        list_strays(connect(data, os_cloud), query, as_json=as_json)
