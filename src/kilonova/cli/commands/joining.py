# SPDX-License-Identifier: Apache-2.0
"""``kilonova compute certify`` and ``join``: hosts of real guests on further machines of a cloud with networks."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.cli.cloud.options import DataFolder
from kilonova.cli.up.data_folder import DEFAULT_FOLDER, default_folder
from kilonova.cli.up.host_options import GuestsOnStop
from kilonova.errors import InvalidRequest


def add_commands(app: typer.Typer) -> None:
    """Add these commands to the Typer app of ``kilonova compute``."""
    app.command()(certify)
    app.command()(join)


def certify(
    host: Annotated[str, typer.Argument(metavar="HOST", help="Name of the host.")],
    output: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the bundle, to be written.", show_default="HOST.bundle"),
    ] = None,
    data: DataFolder = None,
) -> None:
    """Make a certificate with which a host of another machine joins the networks of this cloud.

    The cloud must have been started with `kilonova up --ovn-address`. Repeat this to renew the certificate.
    """
    from kilonova.bundled_services.certificate_authority import end_of  # noqa: PLC0415 - start-up time
    from kilonova.bundled_services.host_bundle import make_bundle  # noqa: PLC0415 - start-up time

    folder = (output or Path(f"{host}.bundle")).expanduser()
    if folder.exists() and not folder.is_dir():
        raise InvalidRequest(f"--output {folder} is not a folder")
    bundle = make_bundle((data or default_folder()).expanduser().absolute(), host, folder)
    print(f"The certificate of host {host} for {bundle.southbound}, valid until {end_of(bundle.certificate):%Y-%m-%d}:")
    print(f"  {folder}")
    print("Copy this folder, which has a private key, to the machine of the host, and start the host there:")
    print(f"  kilonova compute join {folder.name} --address ADDRESS --config-file AGENT.conf")


def join(
    bundle: Annotated[Path, typer.Argument(metavar="DIR", help="Folder that `kilonova compute certify` has written.")],
    address: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="IPv4 address of this machine, for tunnels to the cloud's other hosts."),
    ],
    config_file: Annotated[
        list[Path] | None,
        typer.Option(
            "--config-file",
            help="Configuration file of the host's agent; later ones win.",
            show_default="none: no agent",
        ),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Data folder of the host: guests, Open vSwitch, logs.",
            show_default=DEFAULT_FOLDER,
        ),
    ] = None,
    guests_on_stop: Annotated[
        GuestsOnStop, typer.Option(help="Whether guests keep running when the host is stopped.")
    ] = GuestsOnStop.KEEP,
) -> None:
    """Run a host of real guests for a cloud on another machine, with its networks, until Ctrl-C."""
    from kilonova.cli.up import joined  # noqa: PLC0415 - start-up time

    joined.run(
        joined.JoinOptions(
            folder=(data or default_folder()).expanduser().absolute(),
            bundle=bundle.expanduser(),
            address=address,
            config_files=tuple(file.expanduser().absolute() for file in config_file or ()),
            guests_on_stop=guests_on_stop,
        )
    )
