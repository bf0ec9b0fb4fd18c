# SPDX-License-Identifier: Apache-2.0
"""``kilonova demo``: plays a scenario against a running cloud with the ``openstack`` client and shows the result."""

from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kilonova.cli.cloud.options import DataFolder
from kilonova.cli.cloud.printing import output_console
from kilonova.cli.scenarios.file import find_scenario
from kilonova.errors import ConfigurationError
from kilonova.scenario.load import load_scenario
from kilonova.scenario.model import PROJECTS, Scenario, with_project_ids
from kilonova.scenario.outcome import surprises

if TYPE_CHECKING:  # these modules are slow to import, and --help does not need them
    from kilonova.cli.scenarios.player import ScenarioPlayer


def demo(
    name: Annotated[str, typer.Argument(metavar="NAME|FILE", help="The scenario.")],
    data: DataFolder = None,
    os_cloud: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=("Cloud of the administrator in clouds.yaml. NAME-demo must be the cloud of an ordinary member."),
        ),
    ] = None,
    clean: Annotated[bool, typer.Option("--clean", help="Only remove the resources of an earlier run.")] = False,
) -> int:
    """Play a scenario with the `openstack` client, and show for each server its host and the reasons."""
    from kilonova.cli.cloud.connection import CloudName, Connection, find_cloud  # noqa: PLC0415 - start-up time
    from kilonova.cli.scenarios.cloud_match import differences  # noqa: PLC0415  # slow to import
    from kilonova.cli.scenarios.player import OpenStackClient, ScenarioPlayer, Seat  # noqa: PLC0415 - start-up time

    path = find_scenario(name)
    scenario = load_scenario(path)
    if any(server.remote_address for server in scenario.servers):
        raise ConfigurationError(
            f"scenario {scenario.name} needs requests from several client addresses, which one client cannot send: "
            "start its cloud with `kilonova up` and send requests through proxies that set X-Forwarded-For"
        )
    console = output_console()
    admin = find_cloud(data, os_cloud)
    clouds = {"admin": admin, "demo": CloudName(f"{admin.name}-demo", admin.file)}

    def say(line: str) -> None:
        console.print(Text(line, style="bold"), soft_wrap=True)

    apis = {project: Connection(cloud) for project, cloud in clouds.items()}
    if different := differences(scenario, apis["admin"]):
        where = f" --data {data}" if data else ""
        raise ConfigurationError(
            f"this cloud does not match scenario {scenario.name}: {'; '.join(different)}. "
            f"Start a matching cloud: kilonova up --scenario {name}{where}"
        )
    ids = {project: apis[project].project_id for project in PROJECTS}
    seats = {project: Seat(apis[project], OpenStackClient(cloud, say)) for project, cloud in clouds.items()}
    player = ScenarioPlayer(with_project_ids(scenario, ids), seats)
    if clean:
        player.clean()
        return 0
    console.print(" ".join(scenario.about.split()), style="italic")
    player.prepare()
    player.create_servers()
    return tell(scenario, player, console)


def tell(scenario: Scenario, player: "ScenarioPlayer", console: Console) -> int:
    """Print the host of every server, and why it got that host. Return the exit code: 1 for an unexpected result."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading, ratio in (("Server", None), ("Project", None), ("Host", None), ("Why", 1)):
        table.add_column(heading, overflow="fold", ratio=ratio)
    stories = player.stories()
    for asked in scenario.servers:
        for name in asked.names:
            story = stories[name]
            style = None if story.landing.host else "red"
            table.add_row(name, asked.project, story.landing.host or "none", Text("\n".join(story.why)), style=style)
    console.print()
    console.print(table)
    wrong = surprises(scenario, {name: story.landing for name, story in stories.items()})
    for line in wrong:
        console.print(Text(f"Not as expected: {line}.", style="red"))
    if not wrong:
        console.print(Text("Every server is where the scenario expects it.", style="green"))
    return 1 if wrong else 0
