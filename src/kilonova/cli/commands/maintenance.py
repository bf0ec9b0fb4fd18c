# SPDX-License-Identifier: Apache-2.0
"""``kilonova maintenance``: takes hosts out of service, with their servers moved away, and puts them back."""

from typing import Annotated, Any

import typer
from rich.text import Text

from kilonova.cli.cloud.compute_services import disable, enable
from kilonova.cli.cloud.options import AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.plan_options import LockedToo, PerHost
from kilonova.cli.cloud.plan_tables import print_saved_plan
from kilonova.cli.cloud.plans import act_on, drain_of, drain_of_any, is_complete, save_plan, wait_for_plan
from kilonova.cli.cloud.printing import output_console, print_json
from kilonova.cli.exit_codes import one_is_an_answer
from kilonova.errors import Conflict
from kilonova.model.move_plan import How

app = typer.Typer(help="Take hosts out of service for maintenance, and put them back.", no_args_is_help=True)
Hosts = Annotated[list[str], typer.Argument(metavar="HOST...", help="Compute hosts.")]


@app.command()
def begin(
    hosts: Hosts,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why the hosts are disabled.")] = "maintenance",
    how: Annotated[How, typer.Option(help="The kinds of moves.")] = How.EITHER,
    per_host: PerHost = None,
    locked: LockedToo = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the hosts are empty; exit code 1 if a server stays.")
    ] = False,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Disable hosts and move their servers to others. A repeated command goes on with the same plan."""
    cloud = connect(data, os_cloud)
    with one_is_an_answer():
        disable(cloud, hosts, reason)
        plan = drain_of(cloud, hosts)
        if plan is None:
            limits = {} if per_host is None else {"per_host": per_host}
            body = {"hosts": hosts, "how": how.value, "locked": locked, "limits": limits}
            plan = save_plan(cloud, {"drain": body})
        found = act_on(cloud, plan["id"], "apply")
        if wait:
            found = wait_for_plan(cloud, plan["id"], shows_progress=not as_json)
    _tell_begun(hosts, found, waited=wait, as_json=as_json)
    if found["stays"] or (wait and not is_complete(found)):
        raise typer.Exit(1)


def _tell_begun(hosts: list[str], plan: dict[str, Any], *, waited: bool, as_json: bool) -> None:
    is_empty = waited and is_complete(plan)
    if as_json:
        print_json({"hosts": hosts, "empty": is_empty, "plan": plan})
        return
    print_saved_plan(plan)
    names = ", ".join(hosts)
    if is_empty:
        told = f"{names}: disabled and without servers. Put them back with `kilonova maintenance end`."
    elif waited:
        told = f"{names}: disabled, but servers are left."
    else:
        told = f"{names}: disabled. `kilonova plan show {plan['id']}` shows how the servers move."
    output_console().print(Text(told))


@app.command()
def end(
    hosts: Hosts,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Enable hosts. Servers do not return by themselves; see `kilonova rebalance`."""
    cloud = connect(data, os_cloud)
    plan = drain_of_any(cloud, hosts)
    if plan is not None:
        raise Conflict(f"plan {plan['id']} is moving servers away from these hosts: cancel it first")
    enabled = enable(cloud, hosts)
    if as_json:
        print_json({"hosts": enabled})
    else:
        output_console().print(Text(f"{', '.join(enabled)}: enabled."))
