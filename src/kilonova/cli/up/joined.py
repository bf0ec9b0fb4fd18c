# SPDX-License-Identifier: Apache-2.0
"""The supervisor of ``kilonova compute join``: a host of real guests of a cloud that runs on another machine.

::

    kilonova compute join ── Open vSwitch, ovn-controller, metadata service   DIR/ovn
                          ├── libvirtd                                        DIR/libvirt; guests: DIR/instances
                          └── kilonova compute, the agent of the host         DIR/agent.conf, DIR/log/agent.log

All children but guests stop when the supervisor stops, even by SIGKILL. A child that exits is started again.
"""

import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from kilonova.bundled_services.daemon_probe import accepts_connections
from kilonova.bundled_services.host_bundle import HostBundle, read_bundle
from kilonova.bundled_services.host_network import HostNetwork
from kilonova.bundled_services.joined_host import JoinedHost, why_no_host
from kilonova.bundled_services.machine_consoles import ConsoleAddresses, MachineConsoles
from kilonova.bundled_services.ovn_tls import is_reachable_by_ipv4, read_address
from kilonova.bundled_services.private_file import write_private
from kilonova.cli.up.children import RUN_MODULE, Child, Watched, stop
from kilonova.cli.up.foreground import run_until_stopped, say
from kilonova.cli.up.host_options import GuestsOnStop
from kilonova.cli.up.libvirt import LibvirtSide, require_libvirt, require_networks
from kilonova.cli.up.log_options import log_options
from kilonova.cli.up.operator_file import operator_options
from kilonova.config.consoles import PortRange
from kilonova.errors import ConfigurationError, Unavailable
from kilonova.process_parts import PartOf, ProcessParts
from kilonova.records import dataclass
from kilonova.scenario.options import Sections, conf_text, with_defaults

_AGENT = "agent"
_AGENT_S = 15.0
#: Ports of serial consoles. The proxy reaches them at the machine's address, so they are few.
_SERIAL_PORTS = PortRange(10000, 10999)
_POLL_S = 0.05
_HEADER = "# Written at every start by `kilonova compute join`.\n"


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """Options of ``kilonova compute join``. ``config_files``: of the agent; without any, no agent is started."""

    folder: Path
    bundle: Path
    address: str
    config_files: tuple[Path, ...] = ()
    guests_on_stop: GuestsOnStop = GuestsOnStop.KEEP


class JoinedAgent(Child):
    """The agent of the host. It is ready while it runs: it waits as long as the cloud cannot be reached.

    ``socket``: at which the agent answers the metadata service.
    """

    def __init__(self, files: Sequence[Path], folder: Path, socket: str) -> None:
        words = [word for file in files for word in ("--config-file", str(file))]
        super().__init__(
            _AGENT, (*RUN_MODULE, "kilonova", "compute", *words), folder / "log" / f"{_AGENT}.log", "", folder
        )
        self._socket = socket

    def answers(self) -> bool:
        return not self.ended()

    def wait(self) -> None:
        """Wait until the agent has read its files and listens. Raises: Unavailable if it has ended."""
        deadline = time.monotonic() + _AGENT_S
        while not accepts_connections(self._socket) and time.monotonic() < deadline:
            if self.ended():
                raise Unavailable(self.obituary())
            time.sleep(_POLL_S)


def run(options: JoinOptions) -> None:
    """Start the host, and return when it is stopped by a signal. Raises: ConfigurationError, Unavailable."""
    bundle = read_bundle(options.bundle)
    operator = _checked(options, bundle)
    _make_folder(options.folder)
    run_until_stopped(options.folder, lambda parts: _start(options, bundle, operator, parts))


def _checked(options: JoinOptions, bundle: HostBundle) -> Sections:
    """Check the options and this machine; return the options of the agent's files. Raises: ConfigurationError."""
    from kilonova.bundled_services.certificate_authority import RENEWED_BEFORE, end_of  # noqa: PLC0415 - start-up time

    if not is_reachable_by_ipv4(read_address(options.address, "--address")):
        raise ConfigurationError(f"--address {options.address} is no IPv4 address that other machines can reach")
    operator: Sections = {}
    for file in options.config_files:
        if not file.is_file():
            raise ConfigurationError(f"--config-file {file} is not a file")
        operator = with_defaults(operator_options(file), operator)
    if (named := operator.get("DEFAULT", {}).get("host")) not in (None, bundle.host):
        raise ConfigurationError(f"[DEFAULT] host is {named}, but the bundle is for host {bundle.host}")
    require_libvirt(operator)
    require_networks(operator, 0, why_no_host)
    left = end_of(bundle.certificate) - datetime.now(UTC)
    if left.total_seconds() <= 0:
        raise ConfigurationError(f"the certificate in {bundle.folder} has ended: make a new bundle")
    if left < RENEWED_BEFORE:
        say(f"warning: the certificate in {bundle.folder} ends in {left.days} days; make a new bundle")
    return operator


def _make_folder(folder: Path) -> None:
    os.umask(0o077)
    try:
        (folder / "log").mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise ConfigurationError(f"cannot use the data folder {folder}: {error.strerror}") from error


def _start(options: JoinOptions, bundle: HostBundle, operator: Sections, parts: ProcessParts) -> Sequence[Watched]:
    """Start all processes, and announce the host; return those that must keep running."""
    joined = JoinedHost(options.folder, bundle, options.address)
    side = LibvirtSide(options.folder, bundle.host, operator, network=joined.host, proxied_at=options.address)
    consoles = _consoles(options, bundle, operator, joined.host.network, side)
    parts.start(PartOf("networks", joined.start, joined.stop))
    parts.start(PartOf("libvirt", side.start, lambda: say(side.stop(options.guests_on_stop))))
    parts.start(PartOf("consoles", consoles.start, consoles.stop))
    more: Sections = {"serial_console": {"enabled": True, "port_range": _SERIAL_PORTS}}
    own = with_defaults(side.options(), with_defaults(more, log_options(options.folder / "log" / f"{_AGENT}.log")))
    write_private(_conf(options), _HEADER + conf_text(own))
    watched: list[Watched] = [*joined.processes]
    if side.metadata is not None:
        watched.append(side.metadata.process)
    if side.libvirtd is not None:
        watched.append(side.libvirtd)
    if side.why_emulated is not None:
        say(f"Guests are emulated, which is slow: KVM does not work here: {side.why_emulated}")
    if options.config_files:
        agent = JoinedAgent((_conf(options), *options.config_files), options.folder, joined.host.agent)
        parts.opened(_AGENT, lambda: stop([agent]))
        agent.wait()
        watched.append(agent)
    say(f"Host {bundle.host} has joined the networks of {bundle.southbound}. Its folder: {options.folder}")
    if not options.config_files:
        say(f"Start its agent: kilonova compute --config-file {_conf(options)} --config-file AGENT.conf")
    return watched


def _consoles(
    options: JoinOptions, bundle: HostBundle, operator: Sections, network: HostNetwork, side: LibvirtSide
) -> MachineConsoles:
    """Return the way of the cloud's console proxy to the guests. Raises: ConfigurationError."""
    try:
        serial = PortRange.of(operator.get("serial_console", {}).get("port_range") or str(_SERIAL_PORTS))
    except ValueError as error:
        raise ConfigurationError(f"[serial_console] port_range: {error}") from None
    ports = [(serial.first, serial.last), *([side.libvirtd.screen_ports] if side.libvirtd else [])]
    where = ConsoleAddresses(bundle.cloud_address, options.address, ports)
    return MachineConsoles(network, where, options.folder / "ovn" / "console_devices")


def _conf(options: JoinOptions) -> Path:
    return options.folder / f"{_AGENT}.conf"
