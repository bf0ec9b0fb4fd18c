# SPDX-License-Identifier: Apache-2.0
"""The supervisor of ``kilonova up``: Keystone, Glance, the control process and others are its children.

::

    kilonova up ── keystone      identity, http://HOST:5000/identity
               ├── glance        images,   http://HOST:9292
               ├── with --networks, Neutron, http://HOST:9696 (``networks.py``)
               ├── kilonova api  compute and placement, hosts
               ├── kilonova console-proxy  consoles, http://HOST:6080 and ws://HOST:6083 (``consoles.py``)
               ├── with --agents, the broker and the agent processes, which then run the hosts (``agents.py``)
               └── with --hypervisor libvirt, the libvirtd of a host of real guests, and their networks (``libvirt.py``)

One folder holds all data. All children stop when the supervisor stops, even by SIGKILL. A child that exits is started
again (``supervision.py``). If its restarts fail again and again, or if its first start fails, all children are stopped.
"""

import os
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from kilonova.cli.up import backup_files, shared_modules
from kilonova.cli.up.agents import AgentSide, require_possible, share_out
from kilonova.cli.up.announcement import Announcement
from kilonova.cli.up.bundled import fill, start_bundled_services
from kilonova.cli.up.children import Child, Watched, stop
from kilonova.cli.up.cloud_files import (
    Accounts,
    Cloud,
    accounts,
    login_of,
    make_folder,
    write_bundled_settings,
    write_clouds_yaml,
    write_conf,
)
from kilonova.cli.up.consoles import ConsolePart, is_possible
from kilonova.cli.up.dashboard import DashboardPart
from kilonova.cli.up.data_folder import default_folder
from kilonova.cli.up.first_image import has_linux, linux_image, mark_of
from kilonova.cli.up.foreground import run_until_stopped, say
from kilonova.cli.up.forked_child import ForkedChild
from kilonova.cli.up.host_options import GuestsOnStop, Hypervisor
from kilonova.cli.up.libvirt import host_name, require_libvirt, require_networks
from kilonova.cli.up.networks import NetworkPart
from kilonova.cli.up.operator_file import operator_options, require_possible_workers
from kilonova.cli.up.real_hosts import RealHosts, host_names
from kilonova.cli.up.start_progress import StartProgress
from kilonova.cli.wiring import addresses
from kilonova.cli.wiring.addresses import Address
from kilonova.db.core.sqlite_checkpoint import checkpoint_file
from kilonova.errors import ConfigurationError, Unavailable
from kilonova.process_parts import PartOf, ProcessParts
from kilonova.records import dataclass
from kilonova.scenario.load import load_scenario
from kilonova.scenario.model import Scenario, default_hosts
from kilonova.scenario.options import Sections

_START_TIMEOUT_S = 120.0
_POLL_S = 0.03


@dataclass(frozen=True, slots=True)
class UpOptions:
    """Options of ``kilonova up``. ``config_file`` overrides the generated configuration file."""

    folder: Path
    compute: Address
    identity: Address
    image: Address
    control_command: Sequence[str]
    hosts: int = 3
    hypervisor: Hypervisor = Hypervisor.SIMULATED
    libvirt_hosts: int = 1
    guests_on_stop: GuestsOnStop = GuestsOnStop.KEEP
    agents: int = 0
    scenario: Path | None = None
    config_file: Path | None = None
    bundled_services: bool = True
    consoles: ConsolePart | None = None
    networks: NetworkPart | None = None
    ovn_address: str | None = None
    dashboard: DashboardPart | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """Checked options. ``hosts``: simulated hosts; ``real``: the hosts of real guests, if any."""

    options: UpOptions
    scenario: Scenario
    operator: Sections
    hosts: tuple[str, ...]
    real: RealHosts | None

    @property
    def own_hosts(self) -> Sequence[str]:
        return () if self.real is None else [side.name for side in self.real.sides]


def run(options: UpOptions) -> None:
    """Start all processes, announce the cloud, and return when stopped by a signal.

    Raises: ConfigurationError, Unavailable.
    """
    started = time.monotonic()
    plan = _plan(options)
    _make_folder(plan.options.folder)
    run_until_stopped(plan.options.folder, lambda parts: _start(plan, parts, started))


def _plan(options: UpOptions) -> _Plan:
    """Check the options. Raises: ConfigurationError."""
    options = _with_configured_bind(options)
    scenario = load_scenario(options.scenario) if options.scenario else Scenario(name="")
    operator = operator_options(options.config_file)
    require_possible_workers(operator)
    if not options.bundled_services and not is_possible(operator):
        options = replace(options, consoles=None)  # without credentials, a proxy cannot look up tokens
    hosts = tuple(host.name for host in (scenario.hosts if options.scenario else default_hosts(options.hosts)))
    own_hosts = _own_hosts(options, operator, hosts)
    require_possible(options.agents, len(hosts), operator, own_hosts)
    if not own_hosts:
        return _Plan(options, scenario, operator, hosts, None)
    has_networks, address = options.networks is not None, options.ovn_address
    real = RealHosts(options.folder, own_hosts, operator, networks=has_networks, ovn_address=address)
    if options.networks is not None and real.ovn is not None:
        is_new = options.bundled_services and not mark_of(options.folder).exists()
        linux = linux_image() if is_new else None
        options = replace(options, networks=replace(options.networks, ovn=real.ovn.databases, linux=linux))
    return _Plan(options, scenario, operator, hosts, real)


def _own_hosts(options: UpOptions, operator: Sections, simulated: Sequence[str]) -> Sequence[str]:
    """Return the names of the hosts of real guests. Raises: ConfigurationError if they are not possible."""
    if options.hypervisor is not Hypervisor.LIBVIRT:
        if options.libvirt_hosts > 1:
            raise ConfigurationError("--libvirt-hosts needs --hypervisor libvirt")
        return ()
    require_libvirt(operator)
    own_hosts = host_names(host_name(operator), options.libvirt_hosts)
    if both := [name for name in own_hosts if name in simulated]:
        raise ConfigurationError(f"a simulated host has the name {both[0]}, too; set [DEFAULT] host in --config-file")
    if options.networks is not None:
        require_networks(operator, len(simulated))
    elif len(own_hosts) > 1:
        raise ConfigurationError("--libvirt-hosts needs --networks, which isolates the hosts from each other")
    return own_hosts


def _make_folder(folder: Path) -> None:
    os.umask(0o077)  # child processes such as Keystone and Glance inherit the umask
    if exposed := make_folder(folder):
        names = ", ".join(map(str, exposed[:3]))
        more = f" and {len(exposed) - 3} more" if len(exposed) > 3 else ""
        say(f"warning: other users could access {names}{more}; the permissions are now restricted to you")


def _start(plan: _Plan, parts: ProcessParts, started: float) -> Sequence[Watched]:
    """Start all processes and announce the cloud; return those that must keep running."""
    options = plan.options
    parts.opened("ports", addresses.hold(_needed(options)).close)
    cloud = Cloud(
        folder=options.folder,
        compute=options.compute,
        identity=options.identity,
        image=options.image,
        hosts=options.hosts,
        scenario=options.scenario,
        network=options.networks.address if options.networks else None,
    )
    people = accounts(options.folder, networks=options.networks is not None) if options.bundled_services else None
    parts.opened("databases", lambda: _checkpoint_databases(options.folder))
    real = plan.real
    if real is not None:
        parts.start(PartOf("libvirt", real.start, lambda: say(real.stop(options.guests_on_stop))))
    side = None
    if options.agents:
        shares = share_out(plan.hosts, options.agents, plan.own_hosts)
        side = AgentSide(options.folder, shares, options.scenario, real.sides if real else ())
        parts.opened("agents", side.stop)
    _write_files(plan, cloud, people, side)
    watched: list[Watched] = [side.broker] if side else []
    watched += real.libvirtds if real else []
    _start_processes(plan, cloud, people, side, watched, parts)
    _announce(plan, cloud, time.monotonic() - started)
    return [*watched, *(real.network_processes if real else ())]


def _write_files(plan: _Plan, cloud: Cloud, people: Accounts | None, side: AgentSide | None) -> None:
    consoles, networks = plan.options.consoles, plan.options.networks
    more = [consoles.options()] if consoles else []
    more += [networks.options(cloud, people)] if networks and people else []
    more += [plan.real.control_options(serves=side is None)] if plan.real else []
    broker = None if side is None else side.broker.options()
    write_conf(cloud, people, plan.scenario.options, plan.operator, broker=broker, parts=more)
    if people is not None:
        write_bundled_settings(cloud, people)
        write_clouds_yaml(cloud, people)


def _start_processes(
    plan: _Plan,
    cloud: Cloud,
    people: Accounts | None,
    side: AgentSide | None,
    watched: list[Watched],
    parts: ProcessParts,
) -> None:
    """Start the children, add them to ``watched``, and wait until all watched processes answer."""
    children: list[Child] = []
    parts.opened("children", lambda: stop(children))
    with StartProgress() as progress:
        for each in watched:
            _show_start(each, progress)
        for child in _start_children(plan.options, cloud, people, plan.scenario, plan.operator, side):
            children.append(child)
            watched.append(child)
            _show_start(child, progress)
        _wait_until_up(watched, progress)
        if people is not None:
            fill(cloud, people, plan.options.networks, progress)


def _announce(plan: _Plan, cloud: Cloud, seconds: float) -> None:
    consoles, real = plan.options.consoles, plan.real
    say(_announcement(cloud, plan.options, seconds).text())
    if plan.options.dashboard is not None:
        say(plan.options.dashboard.announcement(cloud.clouds_yaml))
    if consoles is not None and consoles.lacks_novnc(plan.operator):
        say("Browsers show consoles once noVNC is installed, on Debian and Ubuntu: apt-get install novnc")
    if real is not None and real.ovn is not None and real.ovn.why_isolated is not None:
        say(f"Guests reach no networks beyond this machine: {real.ovn.why_isolated}")
    if real is not None and real.why_emulated is not None:
        say(f"Guests are emulated, which is slow: KVM does not work here: {real.why_emulated}")


def _checkpoint_databases(folder: Path) -> None:
    """Merge each database's WAL into its file, so that a copy of the folder is complete."""
    for name in backup_files.DATABASES:
        checkpoint_file(str(folder / name))


def _with_configured_bind(options: UpOptions) -> UpOptions:
    """Replace the address of the control process by ``[api] bind`` of the operator's file, if set."""
    of_the_api = operator_options(options.config_file).get("api", {})
    if of_the_api.get("cert_file"):
        raise ConfigurationError(
            f"[api] cert_file in {options.config_file}: the services of `kilonova up` use HTTP among themselves; put a "
            "proxy with the certificate in front, or serve HTTPS with `kilonova api`."
        )
    bind = of_the_api.get("bind")
    if not bind:
        return options
    return replace(options, compute=addresses.parse(bind, f"[api] bind in {options.config_file}"))


def _needed(options: UpOptions) -> dict[str, Address]:
    bundled_services = {"Keystone (--identity-port)": options.identity, "Glance (--image-port)": options.image}
    if options.networks is not None:
        bundled_services["Neutron (--network-port)"] = options.networks.address
    consoles = options.consoles.needed() if options.consoles is not None else {}
    return {
        "the control process (--bind)": options.compute,
        **(bundled_services if options.bundled_services else {}),
        **consoles,
        **(options.dashboard.needed() if options.dashboard is not None else {}),
    }


def _show_start(child: Watched, progress: StartProgress) -> None:
    progress.start(child.name, f"starting {child.name}, log in {child.log}")


def _start_children(
    options: UpOptions,
    cloud: Cloud,
    people: Accounts | None,
    scenario: Scenario,
    operator: Sections,
    side: AgentSide | None,
) -> Iterator[Child]:
    """Start the children in turn, the slowest first, without waiting until they answer."""
    # the supervisor of agents has connections to the database, which must not get into a copy of its process
    kind = ForkedChild if side is None else Child
    if options.networks is not None and people is not None and people.neutron is not None:
        yield options.networks.start(cloud, people.neutron)
    files = [cloud.conf, *([options.config_file] if options.config_file else [])]
    if side is not None:
        side.enrol(files)
    else:
        shared_modules.load_common()
    yield kind(
        "control",
        (*options.control_command, *(word for file in files for word in ("--config-file", str(file)))),
        cloud.log("control"),
        f"{options.compute.local_url}/compute/v2.1",
        cloud.folder,
        scenario.python_path,
    )
    if people is not None:
        if side is None:
            shared_modules.load_openstack()
        yield from start_bundled_services(cloud, kind)
    if options.consoles is not None:
        login = None if people is None else login_of(cloud, people.console)
        yield options.consoles.start(f"{options.compute.local_url}/compute/v2.1", login, operator, kind)
    if options.dashboard is not None:
        yield options.dashboard.start(f"{cloud.identity.local_url}/identity", kind)
    if side is not None:
        consoles: Sections = {} if options.consoles is None else options.consoles.options()
        yield from side.start_agents((consoles, scenario.options, operator), scenario.python_path)


def _wait_until_up(children: Sequence[Watched], progress: StartProgress) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    waiting = list(children)
    while waiting:
        for child in children:
            if child.ended():
                raise Unavailable(child.obituary())
        for child in [child for child in waiting if child.answers()]:
            waiting.remove(child)
            progress.finish(child.name, f"{child.name} is up")
        if waiting and time.monotonic() > deadline:
            names = " and ".join(child.name for child in waiting)
            raise Unavailable(f"{names} did not answer within {_START_TIMEOUT_S:.0f} s; see {waiting[0].log}")
        progress.tick()
        time.sleep(_POLL_S if waiting else 0)


def _announcement(cloud: Cloud, options: UpOptions, seconds: float) -> Announcement:
    return Announcement(
        cloud,
        seconds,
        bundled_services=options.bundled_services,
        unlimited=options.config_file is None,
        real_guests=options.hypervisor is Hypervisor.LIBVIRT,
        has_linux=has_linux(cloud.folder),
        agents=options.agents > 0,
        data="" if cloud.folder == default_folder() else f" --data {shlex.quote(str(cloud.folder))}",
    )
