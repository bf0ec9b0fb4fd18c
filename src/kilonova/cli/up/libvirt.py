# SPDX-License-Identifier: Apache-2.0
"""What ``kilonova up --hypervisor libvirt`` has beside a cloud with simulated hosts only: a host of real guests.

::

    kilonova up ── libvirtd             DIR/libvirt; none where --config-file says which one to use
               └── kilonova api         serves the host, whose guests are below DIR/instances; or, with --agents,
                   kilonova compute     a process of its own does
"""

import platform
import shlex
import shutil
import socket
from collections.abc import Callable, Mapping
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from kilonova.bundled_services.libvirtd import Libvirtd, missing_programs
from kilonova.compute.virt.libvirt.host import virt_type
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import ConfigurationError
from kilonova.scenario.options import with_defaults

_DRIVER = "libvirt.LibvirtDriver"
#: How long guests have to shut down when they are stopped with the cloud.
SHUTDOWN_S = 20.0

Sections = Mapping[str, Mapping[str, Any]]


class Hypervisor(StrEnum):
    """What the hosts of a cloud are."""

    SIMULATED = "simulated"
    LIBVIRT = "libvirt"


class GuestsOnStop(StrEnum):
    """What becomes of real guests when the cloud is stopped."""

    KEEP = "keep"
    STOP = "stop"


def require_libvirt(operator: Sections) -> None:
    """Refuse a machine that cannot have real guests. Raises: ConfigurationError saying what is missing.

    ``operator``: options of the operator's own file, which may name a libvirtd elsewhere.
    """
    missing = [] if _given_uri(operator) else list(missing_programs())
    if find_spec("libvirt") is None:
        missing.append("libvirt-python")
    if missing:
        raise ConfigurationError(
            f"--hypervisor libvirt needs {' and '.join(filter(None, (', '.join(missing[:-1]), missing[-1])))}; "
            "tools/hypervisor.sh installs what is missing"
        )


def host_name(operator: Sections) -> str:
    """Return the name of the host of real guests."""
    return str(operator.get("DEFAULT", {}).get("host") or socket.gethostname())


def why_no_kvm_here() -> str | None:
    """Say why guests of a libvirtd of this machine cannot run by KVM, None where they can. Takes up to 5 seconds."""
    architecture = platform.machine()
    emulator = f"qemu-system-{architecture}"
    return virt_type.why_no_kvm(shutil.which(emulator) or emulator, architecture, {"kvm"})


class LibvirtSide:
    """The host of real guests of a cloud, and its libvirtd. ``name``: of the host. ``why_no_kvm``: tries KVM.

    ``why_emulated``: why guests of this libvirtd are emulated where nobody has said so; None where they are not.
    """

    def __init__(
        self, folder: Path, name: str, operator: Sections, why_no_kvm: Callable[[], str | None] = why_no_kvm_here
    ) -> None:
        self.name = name
        self._instances = folder / "instances"
        self._uri = _given_uri(operator)
        wanted = operator.get(LibvirtSettings.GROUP, {}).get("virt_type") or ""
        self.why_emulated = why_no_kvm() if not (self._uri or wanted) else None
        emulates = wanted == "qemu" or self.why_emulated is not None
        self.libvirtd = None if self._uri else Libvirtd(folder / "libvirt", self.name, emulates=emulates)

    def start(self) -> None:
        """Start libvirtd, unless one was given, and wait until it takes connections. From the main thread.

        Raises: ConfigurationError, Unavailable.
        """
        if self.libvirtd is not None:
            self.libvirtd.start()
            self.libvirtd.wait()

    def control_options(self, *, serves: bool) -> Sections:
        """Return what tells the control process of the host. ``serves``: whether it has the host itself."""
        resizes: Sections = {"DEFAULT": {"allow_resize_to_same_host": True}}  # there is often no other
        if not serves:
            return resizes
        return with_defaults(self.options(), with_defaults(resizes, {"DEFAULT": {"control_serves_host": True}}))

    def options(self) -> Sections:
        """Return what tells the process that serves the host of it; which does not try KVM a second time in vain."""
        libvirt = {"connection_uri": self._uri or (self.libvirtd.uri if self.libvirtd else "")}
        if self.why_emulated is not None:
            libvirt["virt_type"] = "qemu"
        return {
            "DEFAULT": {"compute_driver": _DRIVER, "host": self.name, "instances_path": self._instances},
            LibvirtSettings.GROUP: libvirt,
        }

    def stop(self, guests: GuestsOnStop) -> str:
        """Stop libvirtd, and its guests if that is wanted. Returns what to say about those that go on.

        Nobody else may act on guests any more.
        """
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
        noun, verb = ("guest goes", "it") if len(left) == 1 else ("guests go", "them")
        kill = shlex.join(["kill", *map(str, left.values())])
        return f"{len(left)} {noun} on running; the next start finds {verb}. To end {verb}: {kill}"


def _given_uri(operator: Sections) -> str:
    return str(operator.get(LibvirtSettings.GROUP, {}).get("connection_uri") or "")
