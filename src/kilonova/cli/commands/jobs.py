# SPDX-License-Identifier: Apache-2.0
"""``kilonova jobs``: lists the long computations of a cloud, shows their results, and cancels them."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.printing import output_console, plain_table, print_json, state_text

app = typer.Typer(help="Long computations: list, show, cancel.", no_args_is_help=True)
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of the job.")]


@app.command("list")
def list_jobs(as_json: AsJson = False, data: DataFolder = None, os_cloud: AdminCloud = None) -> None:
    """List the newest jobs, finished ones included."""
    found: dict[str, Any] = connect(data, os_cloud).get(OPERATOR, "/jobs")
    if as_json:
        print_json(found)
        return
    table = plain_table("Job", "Kind", "State", "Progress", "Created", "What", right=["Progress"])
    for job in found["jobs"]:
        state, what = state_text(job["state"]), Text(job["failure"] or job["message"])
        table.add_row(job["id"], job["kind"], state, f"{job['progress']:.0%}", job["created_at"], what)
    output_console().print(table)


@app.command()
def show(job: JobId, data: DataFolder = None, os_cloud: AdminCloud = None) -> None:
    """Print a job with its parameters and its result, as JSON."""
    answer: Mapping[str, Any] = connect(data, os_cloud).get(OPERATOR, f"/jobs/{job}")
    print_json(answer["job"])


@app.command()
def cancel(job: JobId, data: DataFolder = None, os_cloud: AdminCloud = None) -> None:
    """Cancel an unfinished job, or remove a finished one with its result."""
    answer = connect(data, os_cloud).call("DELETE", OPERATOR, f"/jobs/{job}")
    print("removed" if answer is None else answer["job"]["state"])
