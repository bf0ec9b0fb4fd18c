# SPDX-License-Identifier: Apache-2.0
"""``kilonova up``: the options of a cloud on this machine. ``cli/up/supervisor.py`` runs the cloud."""

from pathlib import Path
from typing import Annotated

import typer

from kilonova.bundled_services.neutron_environment import neutron_python
from kilonova.bundled_services.ovn_tls import read_address
from kilonova.bundled_services.tunnel_end import MOST_HOSTS
from kilonova.cli.scenarios.file import find_scenario
from kilonova.cli.up import supervisor
from kilonova.cli.up.children import RUN_MODULE
from kilonova.cli.up.consoles import ConsolePart
from kilonova.cli.up.dashboard import DashboardPart
from kilonova.cli.up.data_folder import DEFAULT_FOLDER, default_folder
from kilonova.cli.up.host_options import GuestsOnStop, Hypervisor
from kilonova.cli.up.networks import NetworkPart
from kilonova.cli.up.supervisor import UpOptions
from kilonova.cli.wiring import addresses
from kilonova.cli.wiring.addresses import Address
from kilonova.errors import NO_ROOM, ConfigurationError, full_disk

CONTROL_COMMAND = (*RUN_MODULE, "kilonova", "api")


def up(
    hosts: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=100_000,
            help="Number of simulated compute hosts.",
            show_default="3, or 0 with --hypervisor libvirt",
        ),
    ] = None,
    hypervisor: Annotated[
        Hypervisor, typer.Option(help="Kind of hosts; with libvirt, this machine is a host with real guests in QEMU.")
    ] = Hypervisor.SIMULATED,
    libvirt_hosts: Annotated[
        int,
        typer.Option(
            min=1,
            max=MOST_HOSTS,
            help="Number of hosts of real guests on this machine; more than 1 need --networks and as many --agents.",
        ),
    ] = 1,
    guests_on_stop: Annotated[
        GuestsOnStop, typer.Option(help="Whether real guests keep running when the cloud is stopped.")
    ] = GuestsOnStop.KEEP,
    agents: Annotated[
        int,
        typer.Option(
            min=0,
            max=1000,
            help="Number of agent processes for the hosts, over RabbitMQ; 0: the control process runs them.",
        ),
    ] = 0,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Data folder: database, images, passwords, logs.",
            show_default=DEFAULT_FOLDER,
        ),
    ] = None,
    bind: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Address of compute and Placement; HOST is used for all services.")
    ] = "127.0.0.1:8774",
    identity_port: Annotated[int, typer.Option(min=1, max=65535, help="Keystone's port.")] = 5000,
    image_port: Annotated[int, typer.Option(min=1, max=65535, help="Glance's port.")] = 9292,
    novnc_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of VNC consoles.")] = 6080,
    serial_port: Annotated[int, typer.Option(min=1, max=65535, help="Port of serial consoles.")] = 6083,
    networks: Annotated[
        bool,
        typer.Option("--networks/--no-networks", help="Start Neutron too, so that servers get ports and addresses."),
    ] = False,
    network_port: Annotated[int, typer.Option(min=1, max=65535, help="Neutron's port.")] = 9696,
    ovn_address: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Address of this machine at which the databases of OVN listen, for clients with a certificate.",
            show_default="none",
        ),
    ] = None,
    scenario: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Scenario, which describes the hosts and sets options.")
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=("Configuration file of the control process; its options override the generated options."),
        ),
    ] = None,
    bundled_services: Annotated[
        bool,
        typer.Option(
            "--companions/--no-companions",
            help=("Start Keystone and Glance, or use the Keystone and Glance named in --config-file."),
        ),
    ] = True,
    console_proxy: Annotated[
        bool, typer.Option("--console-proxy/--no-console-proxy", help="Start a console proxy (40 MiB of memory).")
    ] = True,
    dashboard: Annotated[
        bool, typer.Option("--dashboard/--no-dashboard", help="Start a dashboard, the cloud in a browser.")
    ] = False,
    dashboard_port: Annotated[int, typer.Option(min=1, max=65535, help="The dashboard's port.")] = 8790,
) -> None:
    """Start a cloud on this machine and run it until Ctrl-C."""
    compute = addresses.parse(bind, "--bind")
    if networks and not bundled_services:
        raise ConfigurationError(
            "--networks needs Kilonova's own Keystone; name your Neutron in [neutron] of --config-file"
        )
    if dashboard and not bundled_services:
        raise ConfigurationError("--dashboard needs Kilonova's own Keystone; start `kilonova dashboard` for yours")
    if config_file is not None and not config_file.is_file():
        raise ConfigurationError(f"--config-file {config_file} is not a file")
    if not bundled_services and config_file is None:
        raise ConfigurationError("--no-companions needs --config-file with your own identity and image services")
    if ovn_address is not None and not (networks and hypervisor is Hypervisor.LIBVIRT):
        raise ConfigurationError("--ovn-address needs --networks and --hypervisor libvirt")
    databases = None if ovn_address is None else read_address(ovn_address)
    folder = (data or default_folder()).expanduser().absolute()
    vnc, serial = Address(compute.host, novnc_port), Address(compute.host, serial_port)
    options = UpOptions(
        folder=folder,
        compute=compute,
        identity=Address(compute.host, identity_port),
        image=Address(compute.host, image_port),
        control_command=CONTROL_COMMAND,
        hosts=hosts if hosts is not None else (3 if hypervisor is Hypervisor.SIMULATED else 0),
        hypervisor=hypervisor,
        libvirt_hosts=libvirt_hosts,
        guests_on_stop=guests_on_stop,
        agents=agents,
        scenario=find_scenario(scenario) if scenario else None,
        config_file=config_file.absolute() if config_file else None,
        bundled_services=bundled_services,
        networks=NetworkPart(folder, Address(compute.host, network_port), neutron_python()) if networks else None,
        ovn_address=databases,
        consoles=ConsolePart(folder, vnc, serial) if console_proxy else None,
        dashboard=DashboardPart(folder, Address(compute.host, dashboard_port)) if dashboard else None,
    )
    try:
        supervisor.run(options)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise full_disk(error, options.folder) from error
