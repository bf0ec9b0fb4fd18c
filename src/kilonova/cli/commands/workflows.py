# SPDX-License-Identifier: Apache-2.0
"""``kilonova workflows``: the long operations that are under way, and what to do about those that are stuck."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, Api, AsJson, DataFolder, WritableApi, connect
from kilonova.cli.cloud.printing import counted, output_console, plain_table, print_json
from kilonova.cli.cloud.server_names import UUID, server_id
from kilonova.errors import Conflict, InvalidRequest, NotFound

_COLORS = {"stuck": "red", "undoing": "yellow", "waiting": "cyan"}
_STEP_MARKS = {"done": "✓", "under way": "→", "being undone": "←", "undone": "✗", "to come": ""}

app = typer.Typer(
    no_args_is_help=True, help="List builds, moves and other long operations, and mend those that are stuck."
)
Workflow = Annotated[str, typer.Argument(metavar="WORKFLOW", help="A workflow's id, as `list` shows it.")]


@app.callback()
def workflows() -> None:
    """List builds, moves and other long operations, and mend those that are stuck."""


@app.command("list")
def list_(
    kind: Annotated[str, typer.Option(metavar="KIND", help="Only these: build, resize, delete, …")] = "",
    stuck: Annotated[bool, typer.Option("--stuck", help="Only those that wait for an operator.")] = False,
    server: Annotated[str, typer.Option(metavar="SERVER", help="Only those of this server (name or id).")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many at most.")] = 100,
    marker: Annotated[str, typer.Option(metavar="WORKFLOW", help="Only those after this one.")] = "",
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """List what is under way, the oldest first."""
    api = connect(data, os_cloud)
    query = {"kind": kind, "stuck": "true" if stuck else "", "marker": marker, "limit": str(limit)}
    if server:
        query["server"] = server if UUID.fullmatch(server) else server_id(api, server)
    answer = api.get(OPERATOR, "/workflows", **{name: value for name, value in query.items() if value})
    if as_json:
        print_json(answer)
    else:
        show_list(answer, output_console())


@app.command()
def show(workflow: Workflow, data: DataFolder = None, os_cloud: AdminCloud = None, as_json: AsJson = False) -> None:
    """Show how far a workflow is, and why it goes no further."""
    answer = find(connect(data, os_cloud), workflow)
    if as_json:
        print_json(answer)
    else:
        show_one(answer["workflow"], output_console())


@app.command()
def retry(workflow: Workflow, data: DataFolder = None, os_cloud: AdminCloud = None, as_json: AsJson = False) -> None:
    """Have a stuck workflow go on at the step where it stopped."""
    answer = act(connect(data, os_cloud), workflow, "retry")
    if as_json:
        print_json(answer)
    else:
        flow = answer["workflow"]
        output_console().print(f"{flow['kind']} of server {flow['server_id']} goes on at step {flow['step']}.")


@app.command()
def abandon(workflow: Workflow, data: DataFolder = None, os_cloud: AdminCloud = None, as_json: AsJson = False) -> None:
    """Give a stuck workflow up. Its server stays in error, with all that it holds, until it is deleted."""
    answer = act(connect(data, os_cloud), workflow, "abandon")
    if as_json:
        print_json(answer)
    else:
        show_abandoned(answer["abandoned"], output_console())


def find(api: Api, uuid: str) -> Mapping[str, Any]:
    """Return what the operator API says of a workflow. Raises: InvalidRequest for one that is not under way."""
    _require_uuid(uuid)
    try:
        answer: Mapping[str, Any] = api.get(OPERATOR, f"/workflows/{uuid}")
    except NotFound as error:
        raise InvalidRequest(error.message) from None
    return answer


def act(api: WritableApi, uuid: str, action: str) -> Mapping[str, Any]:
    """Retry or abandon a workflow. Raises: InvalidRequest for one that is not under way or not stuck."""
    _require_uuid(uuid)
    try:
        answer: Mapping[str, Any] = api.call("POST", OPERATOR, f"/workflows/{uuid}/{action}")
    except (NotFound, Conflict) as error:
        raise InvalidRequest(error.message) from None
    return answer


def _require_uuid(text: str) -> None:
    if not UUID.fullmatch(text):
        raise InvalidRequest(f"{text!r} is no id of a workflow; `kilonova workflows list` shows them")


# --- how it looks -----------------------------------------------------------------------------------------------------


def show_list(answer: Mapping[str, Any], console: Console) -> None:
    """Print one line for each workflow."""
    flows = answer["workflows"]
    if not flows:
        console.print("Nothing is under way.")
        return
    table = plain_table()
    for name in ("Workflow", "Kind", "Server", "Step", "State", "Age"):
        table.add_column(name, overflow="fold", justify="right" if name == "Age" else "left")
    for flow in flows:
        state = Text(flow["state"], style=_COLORS.get(flow["state"], ""))
        age = _duration(flow["age_seconds"])
        table.add_row(flow["id"], flow["kind"], flow["server_id"] or "", flow["step"], state, age)
    console.print(table)
    if stuck := [flow for flow in flows if flow["state"] == "stuck"]:
        console.print(
            Text(f"{counted(len(stuck), 'workflow')} stuck: `kilonova workflows show WORKFLOW` says why.", style="red")
        )
    if answer.get("workflows_links"):
        console.print(f"There are more: --marker {flows[-1]['id']}")


def show_one(flow: Mapping[str, Any], console: Console) -> None:
    """Print the steps of a workflow, and everything that keeps it from going on."""
    console.print(Text(f"{flow['kind']} {flow['id']}: {flow['state']}", style=_COLORS.get(flow["state"], "bold")))
    alive = "" if flow["process"]["alive"] else ", which gives no sign of life: another one takes over"
    lines = [
        f"server {flow['server_id']}" if flow["server_id"] else "",
        f"request {flow['request_id']}",
        f"begun {flow['created_at']}, {_duration(flow['age_seconds'])} ago; at this step since {flow['since']}",
        f"run by process {flow['process']['id']}{alive}",
        f"step {flow['step']} broke {counted(flow['tries'], 'time')}" if flow["tries"] else "",
        f"interrupted by {flow['interrupt']}" if flow["interrupt"] else "",
    ]
    for line in filter(None, lines):
        console.print(Text(line))
    if flow["steps"]:
        console.print()
        console.print(_steps(flow["steps"]))
    for text in _reasons(flow["failure"]):
        console.print()
        console.print(text)
    if flow["state"] == "stuck":
        console.print()
        console.print(f"When the cause is mended: kilonova workflows retry {flow['id']}")
        console.print(f"To give it up: kilonova workflows abandon {flow['id']}")


def _steps(steps: Sequence[Mapping[str, Any]]) -> Table:
    table = plain_table()
    for name in ("", "Step", "State", "Can be undone"):
        table.add_column(name)
    for step in steps:
        undo = "yes" if step["can_be_undone"] else "no"
        table.add_row(_STEP_MARKS.get(step["state"], ""), step["name"], step["state"], undo)
    return table


def _reasons(failure: Mapping[str, Any] | None) -> list[Text]:
    if failure is None:
        return []
    found = []
    if failure["message"] and failure["message"] != failure["stuck_because"]:
        at = f" at step {failure['step']}" if failure["step"] else ""
        on = f" on host {failure['host']}" if failure["host"] else ""
        found.append(Text(f"Failed{at}{on}: {failure['message']}", style="yellow"))
    if failure["stuck_because"]:
        found.append(Text(f"Stuck: {failure['stuck_because']}", style="red"))
    return found


def show_abandoned(given_up: Mapping[str, Any], console: Console) -> None:
    """Print what is left over, and how it is cleaned up."""
    server = given_up["server_id"]
    console.print(f"{given_up['kind']} of server {server} is given up; the server stays in error.")
    if given_up["hosts"]:
        console.print(f"Guests of it may be on, and resources of it are held on: {', '.join(given_up['hosts'])}.")
    if migration := given_up["migration"]:
        console.print(f"Its {migration['type']} {migration['id']} stays open ({migration['status']}).")
    console.print(f"To release all of that: openstack server delete {server}")


def _duration(seconds: int) -> str:
    return str(timedelta(seconds=seconds))
