# SPDX-License-Identifier: Apache-2.0
"""``kilonova rebalance``: shows moves that bring the cloud nearer to an objective, in waves."""

from typing import Annotated, Any

import typer
from rich.text import Text

from kilonova.cli.cloud.jobs import finished_job
from kilonova.cli.cloud.options import AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.plan_options import Apply, LockedToo, PerHost, Save, WaitOfApply, require_apply
from kilonova.cli.cloud.plan_tables import print_plan
from kilonova.cli.cloud.plans import save_and_apply
from kilonova.cli.cloud.printing import output_console, print_json
from kilonova.model.move_plan import How, Objective


def rebalance(
    objective: Annotated[Objective, typer.Option(help="What to improve.")],
    resource: Annotated[
        str | None, typer.Option(metavar="CLASS", help="Resource class of the objective level, such as MEMORY_MB.")
    ] = None,
    aggregate: Annotated[str | None, typer.Option(metavar="NAME|ID", help="Only the hosts of this aggregate.")] = None,
    moves: Annotated[int | None, typer.Option(metavar="N", min=1, help="Most moves of the plan.")] = None,
    gib: Annotated[float | None, typer.Option(metavar="GIB", help="Most GiB that the plan copies.")] = None,
    how: Annotated[How, typer.Option(help="The kinds of moves.")] = How.EITHER,
    per_host: PerHost = None,
    locked: LockedToo = False,
    save: Save = False,
    apply: Apply = False,
    wait: WaitOfApply = False,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Show moves that bring the cloud nearer to an objective; it is not worse after any of them.

    Nothing is moved without --apply.
    """
    require_apply(wait=wait, apply=apply)
    given = {"resource": resource, "aggregate": aggregate, "moves": moves, "gib": gib}
    parameters = {
        "objective": objective.value,
        "how": how.value,
        "limits": {} if per_host is None else {"per_host": per_host},
        "locked": locked,
        **{name: value for name, value in given.items() if value is not None},
    }
    cloud = connect(data, os_cloud)
    job = finished_job(cloud, "rebalance", parameters, shows_progress=not as_json)
    if save or apply:
        save_and_apply(cloud, {"job": job["id"]}, applies=apply, waits=wait, as_json=as_json)
        return
    found: dict[str, Any] = job["result"]
    if as_json:
        print_json(found)
        return
    print_plan(found)
    output_console().print(Text(value_text(found)))


_VALUES = {
    Objective.SPREAD: "imbalance of usage shares",
    Objective.LEVEL: "imbalance of usage shares",
    Objective.PACK: "hosts with servers",
    Objective.MEND: "violations",
}


def value_text(found: dict[str, Any]) -> str:
    """Return the value of the objective before and after the plan."""
    return f"{_VALUES[found['objective']]}: {found['before']:.4g} before, {found['after']:.4g} after the moves"
