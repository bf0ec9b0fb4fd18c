# SPDX-License-Identifier: Apache-2.0
"""``kilonova top``: shows the usage of the cloud and of its hosts, the fullest first, and what is running."""

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.live import Live

from kilonova.cli.cloud.options import OPERATOR, AdminCloud, Api, AsJson, DataFolder, connect
from kilonova.cli.cloud.printing import output_console, print_json
from kilonova.cli.cloud.usage import Usage, screen
from kilonova.errors import InvalidRequest

#: Lines of a terminal besides those of hosts.
_OTHER_LINES = 12


def top(
    by: Annotated[
        str | None,
        typer.Option(metavar="CLASS|servers", help="Sort hosts by this class or by servers; default: fullest."),
    ] = None,
    hosts: Annotated[int | None, typer.Option(metavar="N", min=1, help="Number of hosts; default: a screen.")] = None,
    every: Annotated[float, typer.Option(metavar="S", min=0.2, help="Seconds between two updates.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print the usage once and exit.")] = False,
    as_json: AsJson = False,
    data: DataFolder = None,
    os_cloud: AdminCloud = None,
) -> None:
    """Show the usage of the cloud and of its hosts, the fullest first, and what is running. Ctrl-C ends it."""
    api, console = connect(data, os_cloud), output_console()
    if as_json:
        print_json(_usage(api))
        return
    rows = hosts or max(5, console.height - _OTHER_LINES if console.is_terminal else 20)
    follow(api, console, by=by, rows=rows, every_s=every, once=once or not console.is_terminal)


def follow(
    api: Api,
    console: Console,
    *,
    by: str | None,
    rows: int,
    every_s: float,
    once: bool,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Print the usage, or update it on the screen until Ctrl-C. Raises: InvalidRequest for an unknown ``by``."""
    usage = Usage(_usage(api))
    if by is not None and by not in usage.orders:
        raise InvalidRequest(f"--by must be one of {', '.join(usage.orders)}, not {by!r}")
    shown = screen(usage, _health(api), by=by, rows=rows)
    if once:
        console.print(shown)
        return
    with Live(shown, console=console, auto_refresh=False, screen=True) as live:
        while True:
            pause(every_s)
            usage.update(_usage(api, after=usage.version))
            live.update(screen(usage, _health(api), by=by, rows=rows), refresh=True)


def _usage(api: Api, **query: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = api.get(OPERATOR, "/hosts/usage", **query)
    return found


def _health(api: Api) -> Mapping[str, Any]:
    health: Mapping[str, Any] = api.get(OPERATOR, "/health")["health"]
    return health
