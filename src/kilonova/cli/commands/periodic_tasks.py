# SPDX-License-Identifier: Apache-2.0
"""``kilonova status tasks``: lists the periodic tasks of a control process with the results of their last runs."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, Api, AsJson, DataFolder, connect
from kilonova.cli.cloud.printing import output_console, plain_table, print_json


def tasks(data: DataFolder = None, os_cloud: AdminCloud = None, as_json: AsJson = False) -> None:
    """List the periodic tasks of one control process (the one that answers) with their last runs. Times are in UTC."""
    list_tasks(connect(data, os_cloud), as_json=as_json)


def list_tasks(api: Api, *, as_json: bool) -> None:
    """Query a control process, and print its periodic tasks."""
    health = api.get(OPERATOR, "/health")["health"]
    if as_json:
        print_json({"process": health["process"], "periodic_tasks": health["periodic_tasks"]})
    else:
        show_tasks(health, output_console())


# --- output -----------------------------------------------------------------------------------------------------------


def show_tasks(health: Mapping[str, Any], console: Console) -> None:
    """Print a line for each task."""
    table = plain_table()
    for name, justify in (("Name", "left"), ("Every", "right"), ("Last run", "left"), ("Took", "right")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    table.add_column("Result", overflow="fold")
    for task in health["periodic_tasks"]:
        took, start = task["last_duration_s"], task["last_start"]
        table.add_row(
            task["name"],
            f"{task['interval_s']:g} s" if task["interval_s"] else "",
            start[:19].replace("T", " ") if start else "not yet",
            "" if took is None else f"{took:.3f} s",
            _result(task),
        )
    console.print(table)
    console.print(
        f"Tasks of control process {health['process']}; other processes have their own.",
        markup=False,
    )


def _result(task: Mapping[str, Any]) -> Text:
    if task["running"]:
        return Text("running")
    if task["last_error"]:
        return Text(task["last_error"], style="red")
    return Text("" if task["last_duration_s"] is None else "ok")
