# SPDX-License-Identifier: Apache-2.0
"""``kilonova workflows``: lists running workflows, and retries or abandons those that do not continue."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, Api, AsJson, DataFolder, WritableApi, connect
from kilonova.cli.cloud.printing import counted, duration_text, output_console, plain_table, print_json
from kilonova.cli.cloud.server_names import UUID, server_id
from kilonova.errors import Conflict, InvalidRequest, NotFound

_COLORS = {"stuck": "red", "undoing": "yellow", "waiting": "cyan", "awaiting-host": "magenta"}
_STEP_MARKS = {"done": "✓", "under way": "→", "being undone": "←", "undone": "✗", "to come": ""}

app = typer.Typer(no_args_is_help=True, help="List builds, moves and other workflows, and retry or abandon stuck ones.")
Workflow = Annotated[str, typer.Argument(metavar="WORKFLOW", help="Id of a workflow, from `list`.")]


@app.callback()
def workflows() -> None:
    """List builds, moves and other workflows, and retry or abandon stuck ones."""


@app.command("list")
def list_(
    kind: Annotated[
        str, typer.Option(metavar="KIND", help="List only workflows of this kind: build, resize, delete, …")
    ] = "",
    stuck: Annotated[
        bool, typer.Option("--stuck", help="List only stuck workflows, which wait for an operator.")
    ] = False,
    waiting: Annotated[
        bool,
        typer.Option(
            "--waiting",
            help="List only workflows that wait for an absent host, or for other workflows of their server.",
        ),
    ] = False,
    server: Annotated[
        str, typer.Option(metavar="SERVER", help="List only workflows of this server (name or id).")
    ] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of entries.")] = 100,
    marker: Annotated[str, typer.Option(metavar="WORKFLOW", help="List only workflows after this one.")] = "",
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
    as_json: AsJson = False,
) -> None:
    """List unfinished workflows, the oldest first."""
    api = connect(data, os_cloud)
    query = {"kind": kind, "stuck": _true(stuck), "waiting": _true(waiting), "marker": marker, "limit": str(limit)}
    if server:
        query["server"] = server if UUID.fullmatch(server) else server_id(api, server)
    answer = api.get(OPERATOR, "/workflows", **{name: value for name, value in query.items() if value})
    if as_json:
        print_json(answer)
    else:
        show_list(answer, output_console())


@app.command()
def show(workflow: Workflow, data: DataFolder = None, os_cloud: AdminCloud = None, as_json: AsJson = False) -> None:
    """Show the steps of a workflow, and why it does not continue."""
    answer = find(connect(data, os_cloud), workflow)
    if as_json:
        print_json(answer)
    else:
        show_one(answer["workflow"], output_console())


@app.command()
def retry(workflow: Workflow, data: DataFolder = None, os_cloud: AdminCloud = None, as_json: AsJson = False) -> None:
    """Resume a stuck workflow at the step where it stopped."""
    answer = act(connect(data, os_cloud), workflow, "retry")
    if as_json:
        print_json(answer)
    else:
        flow = answer["workflow"]
        output_console().print(f"{flow['kind']} of server {flow['server_id']} continues at step {flow['step']}.")


@app.command()
def abandon(workflow: Workflow, data: DataFolder = None, os_cloud: AdminCloud = None, as_json: AsJson = False) -> None:
    """Abandon a workflow that is stuck or waits for an absent host.

    Its server is in ERROR, and keeps its resources until the server is deleted.
    """
    answer = act(connect(data, os_cloud), workflow, "abandon")
    if as_json:
        print_json(answer)
    else:
        show_abandoned(answer["abandoned"], output_console())


def find(api: Api, uuid: str) -> Mapping[str, Any]:
    """Return the operator API's description of a workflow. Raises: InvalidRequest if the workflow does not exist."""
    _require_uuid(uuid)
    try:
        answer: Mapping[str, Any] = api.get(OPERATOR, f"/workflows/{uuid}")
    except NotFound as error:
        raise InvalidRequest(error.message) from None
    return answer


def act(api: WritableApi, uuid: str, action: str) -> Mapping[str, Any]:
    """Retry or abandon a workflow.

    Raises: InvalidRequest if the workflow does not exist, or continues automatically.
    """
    _require_uuid(uuid)
    try:
        answer: Mapping[str, Any] = api.call("POST", OPERATOR, f"/workflows/{uuid}/{action}")
    except (NotFound, Conflict) as error:
        raise InvalidRequest(error.message) from None
    return answer


def _true(is_set: bool) -> str:
    return "true" if is_set else ""


def _require_uuid(text: str) -> None:
    if not UUID.fullmatch(text):
        raise InvalidRequest(f"{text!r} is not the id of a workflow; `kilonova workflows list` shows the ids")


# --- output -----------------------------------------------------------------------------------------------------------


def show_list(answer: Mapping[str, Any], console: Console) -> None:
    """Print a line for each workflow."""
    flows = answer["workflows"]
    if not flows:
        console.print("There are no unfinished workflows.")
        return
    table = plain_table("Workflow", "Kind", "Server", "Step", "State", "Age", right=["Age"])
    for flow in flows:
        state = Text(_state(flow), style=_COLORS.get(flow["state"], ""))
        age = duration_text(flow["age_seconds"])
        table.add_row(flow["id"], flow["kind"], flow["server_id"] or "", flow["step"], state, age)
    console.print(table)
    if stuck := [flow for flow in flows if flow["state"] == "stuck"]:
        console.print(
            Text(
                f"{counted(len(stuck), 'workflow')} stuck: `kilonova workflows show WORKFLOW` shows the reason.",
                style="red",
            )
        )
    if answer.get("workflows_links"):
        console.print(f"Show more with --marker {flows[-1]['id']}")


def show_one(flow: Mapping[str, Any], console: Console) -> None:
    """Print the steps of a workflow, and all reasons why it does not continue."""
    console.print(Text(f"{flow['kind']} {flow['id']}: {_state(flow)}", style=_COLORS.get(flow["state"], "bold")))
    alive = "" if flow["process"]["alive"] else ", whose lease has expired: another process takes over"
    lines = [
        f"server {flow['server_id']}" if flow["server_id"] else "",
        f"request {flow['request_id']}",
        f"started {flow['created_at']}, {duration_text(flow['age_seconds'])} ago; at this step since {flow['since']}",
        f"run by process {flow['process']['id']}{alive}",
        f"step {flow['step']} failed {counted(flow['tries'], 'time')}" if flow["tries"] else "",
        f"interrupted by {flow['interrupt']}" if flow["interrupt"] else "",
        f"waits for host {flow['awaited_host']} since {flow['awaited_since']}" if flow["awaited_host"] else "",
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
        console.print(f"When the cause is removed: kilonova workflows retry {flow['id']}")
        console.print(f"To abandon the workflow: kilonova workflows abandon {flow['id']}")
    elif flow["state"] == "awaiting-host":
        console.print()
        console.print(f"It continues when host {flow['awaited_host']} returns.")
        console.print(f"To abandon the workflow: kilonova workflows abandon {flow['id']}")


def _state(flow: Mapping[str, Any]) -> str:
    return f"awaiting host {flow['awaited_host']}" if flow["state"] == "awaiting-host" else str(flow["state"])


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
    """Print the resources that an abandoned workflow leaves behind, and the command that releases them."""
    server = given_up["server_id"]
    console.print(f"{given_up['kind']} of server {server} is abandoned; the server stays in error.")
    if given_up["hosts"]:
        console.print(f"Hosts with resources, and possibly guests, of the server: {', '.join(given_up['hosts'])}.")
    if migration := given_up["migration"]:
        console.print(f"The server's {migration['type']} {migration['id']} stays in status {migration['status']}.")
    console.print(f"To release the server's resources: openstack server delete {server}")
