# SPDX-License-Identifier: Apache-2.0
"""``kilonova plan``: lists, shows, applies, pauses, resumes, cancels and deletes saved plans of moves."""

from typing import Annotated, Any

import typer
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.plans import act_and_wait, act_on, show_plan, tell_plan, wait_for_plan
from kilonova.cli.cloud.printing import output_console, plain_table, print_json, state_text

app = typer.Typer(help="Saved plans of moves: list, show, apply, pause, resume, cancel, delete.", no_args_is_help=True)
PlanId = Annotated[str, typer.Argument(metavar="PLAN", help="The id of the plan.")]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until the plan has ended or is paused; exit code 1 if a server stays.")
]


@app.command("list")
def list_plans(as_json: AsJson = False, data: DataFolder = None, os_cloud: AdminCloud = None) -> None:
    """List the newest plans."""
    found: dict[str, Any] = connect(data, os_cloud).get(OPERATOR, "/plans")
    if as_json:
        print_json(found)
        return
    table = plain_table("Plan", "Kind", "State", "Moves", "Created", "What", right=["Moves"])
    for plan in found["plans"]:
        counts, state = plan["progress"], state_text(plan["state"])
        moves = f"{counts['done']} of {sum(counts.values())}"
        table.add_row(plan["id"], plan["kind"], state, moves, plan["created_at"], Text(plan["message"]))
    output_console().print(table)


@app.command()
def show(plan: PlanId, as_json: AsJson = False, data: DataFolder = None, os_cloud: AdminCloud = None) -> None:
    """Show the moves and the progress of a plan."""
    tell_plan(show_plan(connect(data, os_cloud), plan), as_json=as_json)


@app.command()
def apply(
    plan: PlanId,
    wait: Wait = False,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Begin the moves of a plan, wave after wave."""
    act_and_wait(connect(data, os_cloud), plan, "apply", waits=wait, as_json=as_json)


@app.command()
def pause(plan: PlanId, as_json: AsJson = False, data: DataFolder = None, os_cloud: AdminCloud = None) -> None:
    """Begin no further move; moves that have begun end."""
    act_and_wait(connect(data, os_cloud), plan, "pause", waits=False, as_json=as_json)


@app.command()
def resume(
    plan: PlanId,
    wait: Wait = False,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Go on with a paused plan."""
    act_and_wait(connect(data, os_cloud), plan, "resume", waits=wait, as_json=as_json)


@app.command()
def cancel(
    plan: PlanId,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the moves that have begun have ended.")] = False,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """End a plan; moves that have begun end."""
    cloud = connect(data, os_cloud)
    found = act_on(cloud, plan, "cancel")
    tell_plan(wait_for_plan(cloud, plan, shows_progress=not as_json) if wait else found, as_json=as_json)


@app.command()
def delete(plan: PlanId, data: DataFolder = None, os_cloud: AdminCloud = None) -> None:
    """Delete a plan that is not being applied."""
    connect(data, os_cloud).call("DELETE", OPERATOR, f"/plans/{plan}")
