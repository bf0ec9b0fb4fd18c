# SPDX-License-Identifier: Apache-2.0
"""The host of real guests of ``kilonova up --hypervisor libvirt``. A cloud may have simulated hosts, too.

::

    kilonova up ── Open vSwitch, OVN    DIR/ovn; only with --networks
               ├── libvirtd             DIR/libvirt; not started if --config-file names a libvirtd
               └── kilonova api         has the host's agent; the guests are below DIR/instances;
                   kilonova compute     with --agents, this process has the host's agent instead
"""

import os
import platform
import shlex
import shutil
import socket
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from kilonova.bundled_services.libvirtd import Libvirtd, missing_programs
from kilonova.bundled_services.ovn import why_impossible
from kilonova.bundled_services.ovn_host import OvnHost
from kilonova.cli.up.host_options import GuestsOnStop
from kilonova.cli.up.metadata import MetadataPart
from kilonova.compute.virt.libvirt.host import virt_type
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import ConfigurationError
from kilonova.scenario.options import Sections, with_defaults

_DRIVER = "libvirt.LibvirtDriver"
#: Timeout in seconds for the shutdown of guests that are stopped together with the cloud.
SHUTDOWN_S = 20.0


def require_libvirt(operator: Sections) -> None:
    """Raise ConfigurationError, which names the missing programs, if this machine cannot run real guests.

    ``operator``: options of the operator's file, which may name a remote libvirtd.
    """
    missing = [] if _given_uri(operator) else list(missing_programs())
    if find_spec("libvirt") is None:
        missing.append("libvirt-python")
    if missing:
        raise ConfigurationError(
            f"--hypervisor libvirt needs {' and '.join(filter(None, (', '.join(missing[:-1]), missing[-1])))}; "
            "tools/hypervisor.sh installs what is missing"
        )


def require_networks(
    operator: Sections, simulated_hosts: int, why_not: Callable[..., str | None] = why_impossible
) -> None:
    """Raise ConfigurationError if real guests of this machine cannot have networks.

    ``why_not``: checks the machine, as :func:`~kilonova.bundled_services.ovn.why_impossible` does.
    """
    if reason := why_not(is_root=os.geteuid() == 0):
        raise ConfigurationError(reason)
    if _given_uri(operator):
        raise ConfigurationError(
            "--networks needs the libvirtd of `kilonova up`, which runs in a network namespace: remove [libvirt] "
            "connection_uri from --config-file"
        )
    if simulated_hosts:
        raise ConfigurationError("--networks is possible for real guests or for simulated hosts, not for both")


def host_name(operator: Sections) -> str:
    """Return the name of the host of real guests."""
    return str(operator.get("DEFAULT", {}).get("host") or socket.gethostname())


def why_no_kvm_here() -> str | None:
    """Test KVM; return the reason why guests on this machine cannot use KVM, or None. Takes up to 5 seconds."""
    architecture = platform.machine()
    emulator = f"qemu-system-{architecture}"
    return virt_type.why_no_kvm(shutil.which(emulator) or emulator, architecture, {"kvm"})


class LibvirtSide:
    """A host of real guests of a cloud, and its libvirtd.

    ``folder``: folder of the host. ``name``: name of the host. ``why_no_kvm``: tests KVM, and returns the reason if it
    does not work, else None. ``network``: Open vSwitch of the host, in whose network namespace the guests run; None if
    the guests have no networks. ``proxied_at``: address at which console proxies reach the consoles; None: where these
    listen. ``suffix``: added to the names of the host's processes.
    ``why_emulated``: why KVM does not work, if the CPU of guests is therefore emulated; else None.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        operator: Sections,
        why_no_kvm: Callable[[], str | None] = why_no_kvm_here,
        *,
        network: OvnHost | None = None,
        proxied_at: str | None = None,
        suffix: str = "",
    ) -> None:
        self.name = name
        self._instances = folder / "instances"
        self._uri = _given_uri(operator)
        wanted = operator.get(LibvirtSettings.GROUP, {}).get("virt_type") or ""
        self.why_emulated = why_no_kvm() if not (self._uri or wanted) else None
        emulates = wanted == "qemu" or self.why_emulated is not None
        self._network = network
        self._proxied_at = proxied_at
        self.metadata = None if network is None else MetadataPart(network, f"metadata{suffix}")
        guests = None if network is None else network.guests
        self.libvirtd = (
            None
            if self._uri
            else Libvirtd(folder / "libvirt", name, emulates=emulates, network=guests, name=f"libvirtd{suffix}")
        )

    def start(self) -> None:
        """Start the metadata service and libvirtd, as far as they are needed, and wait until they are ready.

        Call this from the main thread. Raises: ConfigurationError, Unavailable.
        """
        if self.metadata is not None:
            self.metadata.start()
        if self.libvirtd is not None:
            self.libvirtd.start()
            self.libvirtd.wait()

    def control_options(self, *, serves: bool) -> Sections:
        """Return the control process's options for this host.

        ``serves``: whether the control process runs the host's agent.
        """
        # A private cloud often has only one libvirt host, so a resize must be possible on the same host.
        own: Sections = {"DEFAULT": {"allow_resize_to_same_host": True}}
        if not serves:
            return own
        return with_defaults(self.options(), with_defaults(own, {"DEFAULT": {"control_serves_host": True}}))

    def options(self) -> Sections:
        """Return the options of the process that runs the host's agent.

        The options include ``virt_type`` if the KVM test failed.
        """
        libvirt = {"connection_uri": self._uri or (self.libvirtd.uri if self.libvirtd else "")}
        if self.why_emulated is not None:
            libvirt["virt_type"] = "qemu"
        host: Sections = {
            "DEFAULT": {"compute_driver": _DRIVER, "host": self.name, "instances_path": self._instances},
            LibvirtSettings.GROUP: libvirt,
            **self._console_options(),
        }
        return host if self.metadata is None else with_defaults(host, self.metadata.options())

    def _console_options(self) -> Sections:
        """Return the options of consoles. Consoles of guests in a network namespace listen in this namespace."""
        if self._network is None:
            return {}
        address = self._network.network.console_address
        reached = self._proxied_at or address
        return {
            "vnc": {"server_listen": address, "server_proxyclient_address": reached},
            "serial_console": {
                "proxyclient_address": reached,
                **({"server_listen": address} if self._proxied_at else {}),
            },
        }

    def stop(self, guests: GuestsOnStop) -> str:
        """Stop libvirtd, and its guests if ``guests`` is STOP; then the metadata service.

        Return a message about guests that keep running, or "". Call this after all other processes that can act on the
        guests have stopped.
        """
        try:
            return self._stop_libvirtd(guests)
        finally:
            if self.metadata is not None:
                self.metadata.process.stop()

    def _stop_libvirtd(self, guests: GuestsOnStop) -> str:
        if self.libvirtd is None:
            return ""
        if guests is GuestsOnStop.STOP and not self.libvirtd.ended() and self.libvirtd.guests():
            from kilonova.cli.up.guests_on_stop import stop_guests  # noqa: PLC0415 - imports libvirt

            stop_guests(self.libvirtd.uri, SHUTDOWN_S)
        self.libvirtd.stop()
        if guests is GuestsOnStop.STOP:
            self.libvirtd.end_guests()
        left = self.libvirtd.guests()
        if not left:
            return ""
        noun, verb = ("guest keeps", "it") if len(left) == 1 else ("guests keep", "them")
        kill = shlex.join(["kill", *map(str, left.values())])
        return f"{len(left)} {noun} running; the next start finds {verb}. To kill {verb}: {kill}"


def _given_uri(operator: Sections) -> str:
    return str(operator.get(LibvirtSettings.GROUP, {}).get("connection_uri") or "")
