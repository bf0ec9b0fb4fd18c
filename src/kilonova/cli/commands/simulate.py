# SPDX-License-Identifier: Apache-2.0
"""``kilonova simulate``: changes guests of a simulated host, to test how Kilonova reacts to unexpected changes."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from kilonova.cli.cloud.options import DataFolder
from kilonova.cli.cloud.printing import output_console, plain_table
from kilonova.cli.up.data_folder import default_folder
from kilonova.compute.virt.fake.guests import GuestFile, Place
from kilonova.errors import InvalidRequest
from kilonova.model.instance import PowerState

Host = Annotated[str, typer.Argument(metavar="HOST", help="A simulated host.")]
Guest = Annotated[str, typer.Argument(metavar="SERVER", help="Id of the guest's server.")]
StateDir = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help=("The folder in [fake] state_dir of the process that runs the host; in place of --data.")
    ),
]

app = typer.Typer(
    help="Crash, stop or remove guests of a simulated host, or cut its power, without Kilonova's knowledge.",
    no_args_is_help=True,
)


@app.command()
def guests(host: Host, data: DataFolder = None, state_dir: StateDir = None) -> None:
    """List the guests of a host, with their power states on the simulated hypervisor."""
    table = plain_table("Server", "State")
    for uuid, place in sorted(_file(host, data, state_dir).places.items()):
        table.add_row(uuid, place.power_state.name.lower())
    output_console().print(table)


@app.command()
def stop(host: Host, server: Guest, data: DataFolder = None, state_dir: StateDir = None) -> None:
    """Power a guest off, as if the guest had shut down or its hypervisor had stopped it."""
    _change(host, server, data, state_dir, _into(PowerState.SHUTDOWN))


@app.command()
def start(host: Host, server: Guest, data: DataFolder = None, state_dir: StateDir = None) -> None:
    """Power a guest on."""
    _change(host, server, data, state_dir, _into(PowerState.RUNNING))


@app.command()
def pause(host: Host, server: Guest, data: DataFolder = None, state_dir: StateDir = None) -> None:
    """Pause a guest."""
    _change(host, server, data, state_dir, _into(PowerState.PAUSED))


@app.command()
def crash(host: Host, server: Guest, data: DataFolder = None, state_dir: StateDir = None) -> None:
    """Crash a guest."""
    _change(host, server, data, state_dir, _into(PowerState.CRASHED))


@app.command()
def remove(host: Host, server: Guest, data: DataFolder = None, state_dir: StateDir = None) -> None:
    """Remove a guest with its disk."""
    _change(host, server, data, state_dir, lambda place: replace(place, guest=None))


@app.command("power-loss")
def power_loss(host: Host, data: DataFolder = None, state_dir: StateDir = None) -> None:
    """Cut the power of a host, which powers off all its guests.

    Restart the host's agent to simulate the host's boot.
    """
    off = _into(PowerState.SHUTDOWN)
    _put(host, data, state_dir, lambda places: {uuid: off(place) for uuid, place in places.items()})


def _into(state: PowerState) -> Callable[[Place], Place]:
    return lambda place: place if place.guest is None else replace(place, guest=replace(place.guest, state=state))


def _change(
    host: str, server: str, data: Path | None, state_dir: Path | None, change: Callable[[Place], Place]
) -> None:
    def one(places: Mapping[str, Place]) -> Mapping[str, Place]:
        place = places.get(server)
        if place is None or place.guest is None:
            raise InvalidRequest(f"Host {host} has no guest {server}: `kilonova simulate guests {host}` lists them.")
        return {server: change(place)}

    _put(host, data, state_dir, one)


def _put(
    host: str,
    data: Path | None,
    state_dir: Path | None,
    change: Callable[[Mapping[str, Place]], Mapping[str, Place]],
) -> None:
    _file(host, data, state_dir).put_all(change, alone=True)


def _file(host: str, data: Path | None, state_dir: Path | None) -> GuestFile:
    folder = (state_dir or (data or default_folder()) / "hypervisors").expanduser()
    file = folder / f"{quote(host, safe='')}.json"
    if not file.is_file():
        raise InvalidRequest(f"No simulated host {host} has guests in {folder}.")
    return GuestFile(host, file)
