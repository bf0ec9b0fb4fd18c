# SPDX-License-Identifier: Apache-2.0
"""``kilonova hosts evacuate``: moves all servers away from hosts, live from a host that is up."""

from typing import Annotated, Any

import typer

from kilonova.cli.cloud.compute_services import service_of
from kilonova.cli.cloud.options import AdminCloud, AsJson, DataFolder, connect
from kilonova.cli.cloud.plan_options import LockedToo
from kilonova.cli.cloud.plans import save_and_apply
from kilonova.model.move_plan import How


def evacuate(
    host: Annotated[str, typer.Argument(metavar="HOST", help="A compute host.")],
    how: Annotated[How, typer.Option(help="The kinds of moves from a host that is up.")] = How.LIVE,
    locked: LockedToo = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until the plan has ended.")] = False,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Live-migrate all servers away from a host that is up, or rebuild them elsewhere if it is down.

    The exit code is 1 if a server stays.
    """
    cloud = connect(data, os_cloud)
    body: dict[str, Any]
    if service_of(cloud, host)["state"] == "up":
        body = {"drain": {"hosts": [host], "how": how.value, "locked": locked}}
    else:
        body = {"evacuate": {"hosts": [host]}}
    save_and_apply(cloud, body, applies=True, waits=wait, as_json=as_json)
