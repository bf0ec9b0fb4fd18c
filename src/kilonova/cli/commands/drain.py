# SPDX-License-Identifier: Apache-2.0
"""``kilonova drain``: shows the moves that empty hosts, in waves, and the servers that must stay."""

from typing import Annotated, Any

import typer

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.plan_options import Apply, LockedToo, PerHost, Save, WaitOfApply, require_apply
from kilonova.cli.cloud.plan_tables import print_plan
from kilonova.cli.cloud.plans import save_and_apply
from kilonova.cli.cloud.printing import print_json
from kilonova.model.move_plan import How


def drain(
    hosts: Annotated[list[str] | None, typer.Argument(metavar="[HOST]...", help="Compute hosts to empty.")] = None,
    aggregate: Annotated[str | None, typer.Option(metavar="NAME|ID", help="Empty the hosts of this aggregate.")] = None,
    live: Annotated[bool, typer.Option("--live", help="Plan live migrations only.")] = False,
    cold: Annotated[bool, typer.Option("--cold", help="Plan cold migrations only.")] = False,
    either: Annotated[
        bool, typer.Option("--either", help="Plan live migrations where possible, else cold ones; the default.")
    ] = False,
    per_host: PerHost = None,
    per_wave: Annotated[int | None, typer.Option(metavar="N", min=1, help="Most moves at the same time.")] = None,
    gib_per_host: Annotated[
        float | None, typer.Option(metavar="GIB", help="Most GiB copied from or to one host in a wave.")
    ] = None,
    locked: LockedToo = False,
    save: Save = False,
    apply: Apply = False,
    wait: WaitOfApply = False,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Show the moves that empty hosts, and which servers must stay (exit code 1 if any). With --apply, move them."""
    if live + cold + either > 1:
        raise typer.BadParameter("Choose one of --live, --cold and --either.")
    require_apply(wait=wait, apply=apply)
    limits: dict[str, Any] = {"per_host": per_host, "per_wave": per_wave, "gib_per_host": gib_per_host}
    body = {
        "how": (How.LIVE if live else How.COLD if cold else How.EITHER).value,
        "limits": {name: value for name, value in limits.items() if value is not None},
        "locked": locked,
        **({"hosts": list(hosts)} if hosts else {}),
        **({"aggregate": aggregate} if aggregate is not None else {}),
    }
    cloud = connect(data, os_cloud)
    if save or apply:
        save_and_apply(cloud, {"drain": body}, applies=apply, waits=wait, as_json=as_json)
        return
    found: dict[str, Any] = cloud.call("POST", OPERATOR, "/drain", json=body)
    if as_json:
        print_json(found)
    else:
        print_plan(found)
    if found["stays"]:
        raise typer.Exit(1)
