# SPDX-License-Identifier: Apache-2.0
"""Query of QEMU for the devices that it can emulate, which libvirt does not report."""

import json
import subprocess
from functools import lru_cache
from pathlib import Path

from kilonova.errors import DriverError

_NO_MACHINE = ("-machine", "none", "-S", "-nodefaults", "-no-user-config", "-display", "none", "-qmp", "stdio")
_COMMANDS = (
    {"execute": "qmp_capabilities"},
    {"execute": "qom-list-types", "arguments": {"implements": "device", "abstract": False}, "id": "devices"},
    {"execute": "quit"},
)
_TIMEOUT_S = 20.0


def device_types(emulator: str, timeout_s: float = _TIMEOUT_S) -> frozenset[str]:
    """Return the names of the devices that an emulator supports. The result is cached until the program file changes.

    Raises: DriverError.
    """
    try:
        replaced_at = Path(emulator).stat().st_mtime_ns
    except OSError as error:
        raise DriverError(f"The emulator {emulator} cannot list its devices: {error.strerror}.") from error
    return _device_types(emulator, replaced_at, timeout_s)


@lru_cache(maxsize=8)
def _device_types(emulator: str, replaced_at: int, timeout_s: float) -> frozenset[str]:
    del replaced_at
    asked = "".join(json.dumps(each) + "\n" for each in _COMMANDS)
    try:
        done = subprocess.run(  # noqa: S603 - libvirt reports the path of the emulator
            [emulator, *_NO_MACHINE], input=asked, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except OSError as error:
        raise DriverError(f"The emulator {emulator} cannot list its devices: {error.strerror}.") from error
    except subprocess.TimeoutExpired:
        raise DriverError(f"The emulator {emulator} did not list its devices within {timeout_s:g} s.") from None
    found = _answer(done.stdout)
    if not found:
        raise DriverError(f"The emulator {emulator} did not list its devices; it exited with {done.returncode}.")
    return found


def _answer(output: str) -> frozenset[str]:
    for line in output.splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if isinstance(told, dict) and told.get("id") == "devices":
            return frozenset(each["name"] for each in told.get("return", ()))
    return frozenset()
