# SPDX-License-Identifier: Apache-2.0
"""Choice between KVM and QEMU emulation. KVM is tested with a tiny guest, because KVM hangs on some machines."""

import logging
import os
import subprocess
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Event, Timer
from typing import IO

from kilonova.compute.virt.libvirt.host import tiny_guest
from kilonova.errors import ConfigurationError
from kilonova.records import dataclass

LOG = logging.getLogger(__name__)
DEVICE = Path("/dev/kvm")
_TIMEOUT_S = 5.0
_X86 = ("x86_64", "i686")
#: Architecture → machine type of the tiny guest; "virt" for all architectures that are not listed.
_MACHINES = {"ppc64": "pseries", "ppc64le": "pseries", "s390x": "s390-ccw-virtio"}
_BARE = ("-nodefaults", "-no-user-config", "-display", "none", "-qmp", "stdio", "-S")
_RUN = b'{"execute": "qmp_capabilities"}\n{"execute": "cont"}\n'
_QUIT = b'{"execute": "qmp_capabilities"}\n{"execute": "quit"}\n'
_STOPPED = b'"event": "STOP"'
_MOST_BYTES = 64 * 1024


def _may_open(device: Path) -> bool:
    return os.access(device, os.R_OK | os.W_OK)


@dataclass(frozen=True, slots=True)
class KvmTrial:
    """Parameters of the KVM test.

    ``device``: path of the KVM device. ``may_open``: tells whether this process may open the device; libvirtd, which
    may run as another user, may have access even if this process has none.
    """

    device: Path = DEVICE
    timeout_s: float = _TIMEOUT_S
    may_open: Callable[[Path], bool] = _may_open


_TRIAL = KvmTrial()


def choose_virt_type(
    setting: str, emulator: str, architecture: str, domain_types: Collection[str], trial: KvmTrial = _TRIAL
) -> str:
    """Return kvm or qemu: the value of ``[libvirt] virt_type`` if it is set, otherwise kvm if it works on this host.

    ``setting``: the value of ``[libvirt] virt_type``, or "". ``domain_types``: domain types that libvirt offers.
    Raises: ConfigurationError if kvm is configured and does not work.
    """
    if setting == "qemu":
        return "qemu"
    if setting == "kvm" and "kvm" in domain_types and trial.device.exists() and not trial.may_open(trial.device):
        LOG.warning("[libvirt] virt_type is kvm, which was not tested: this process may not open %s", trial.device)
        return "kvm"
    reason = why_no_kvm(emulator, architecture, domain_types, trial)
    if reason is None:
        LOG.info("Guests run with KVM")
        return "kvm"
    if setting == "kvm":
        raise ConfigurationError(f"[libvirt] virt_type is kvm, which does not work on this host: {reason}.")
    LOG.warning("Guests run with QEMU's slow emulation, since KVM does not work on this host: %s", reason)
    return "qemu"


def why_no_kvm(emulator: str, architecture: str, domain_types: Collection[str], trial: KvmTrial = _TRIAL) -> str | None:
    """Return the reason why guests cannot run with KVM on this host, or None if they can."""
    if not trial.device.exists():
        return f"there is no {trial.device}"
    if not trial.may_open(trial.device):
        return f"this process may not open {trial.device}, so KVM cannot be tried"
    if "kvm" not in domain_types:
        return "libvirt does not offer it"
    return try_guest(emulator, architecture, "kvm", trial.timeout_s)


def try_guest(emulator: str, architecture: str, accelerator: str, timeout_s: float) -> str | None:
    """Run a tiny guest; return the reason of a failure, or None on success.

    On architectures other than x86, the emulator only creates a machine, but does not start the CPUs of the machine.
    """
    command = [emulator, "-accel", accelerator, *_BARE]
    if architecture not in _X86:
        return _outcome([*command, "-machine", _MACHINES.get(architecture, "virt")], _QUIT, 0, timeout_s)
    with TemporaryDirectory(prefix="kilonova-kvm-") as folder:
        firmware = Path(folder, "firmware")
        firmware.write_bytes(tiny_guest.firmware())
        board = ["-machine", "q35", "-m", "4", "-no-reboot", "-bios", str(firmware)]
        port = ["-device", f"isa-debug-exit,iobase={tiny_guest.EXIT_PORT:#x},iosize=4"]
        return _outcome([*command, *board, *port], _RUN, tiny_guest.EXIT_CODE, timeout_s)


def _outcome(command: Sequence[str], orders: bytes, expected: int, timeout_s: float) -> str | None:
    """Run an emulator until it exits, its guest stops, or the timeout is over.

    Return the reason of a failure, or None if the emulator exits with the status ``expected``.
    """
    late, stopped = Event(), False
    with TemporaryFile() as said:
        try:
            emulator = subprocess.Popen(  # noqa: S603 - libvirt reports the path of the emulator
                command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said
            )
        except OSError as error:
            return f"{command[0]} does not start: {error.strerror}"

        def give_up() -> None:
            late.set()
            emulator.kill()

        timer = Timer(timeout_s, give_up)
        timer.start()
        with emulator:
            stopped = _stops(emulator, orders)
            emulator.wait()
        timer.cancel()
        if not (late.is_set() or stopped) and emulator.returncode == expected:
            return None
        complaint = _complaint(said)
    if late.is_set():
        return f"a tiny guest did not end within {timeout_s:g} s{complaint}"
    ended = "was stopped" if stopped else f"did not run, its emulator ended with {emulator.returncode}"
    return f"a tiny guest {ended}{complaint}"


def _stops(emulator: subprocess.Popen[bytes], orders: bytes) -> bool:
    """Send commands to an emulator; if the emulator reports that its guest stopped, kill it and return True."""
    assert emulator.stdin is not None
    assert emulator.stdout is not None
    try:
        emulator.stdin.write(orders)
        emulator.stdin.flush()
    except OSError:
        return False  # the emulator has already exited
    for line in emulator.stdout:
        if _STOPPED in line:
            emulator.kill()
            return True
    return False


def _complaint(said: IO[bytes]) -> str:
    """Return the first line of an emulator's output that is not a warning, prefixed for a message, or ""."""
    said.seek(0)
    lines = said.read(_MOST_BYTES).decode(errors="replace").splitlines()
    first = next((line.strip() for line in lines if line.strip() and "warning:" not in line), "")
    return first and f", and QEMU says: {first.removesuffix('.')}"
