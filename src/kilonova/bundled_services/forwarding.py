# SPDX-License-Identifier: Apache-2.0
"""The kernel's setting of devices whose packets this machine forwards, and a note of the devices where it was changed.

The note outlives a killed process, so that the next start can undo its changes.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from kilonova.bundled_services.private_file import write_private

DEVICES = Path("/proc/sys/net/ipv4/conf")


class Forwarding:
    """IPv4 forwarding of devices. ``note``: file of the note. ``devices``: folder with the settings of each device."""

    def __init__(self, note: Path, devices: Path = DEVICES) -> None:
        self._note = note
        self._devices = devices

    def closed(self, devices: Iterable[str]) -> list[str]:
        """Return those of the devices whose packets are not forwarded. Raises: OSError."""
        return sorted(device for device in devices if not self._forwards(device))

    def open(self, closed: Sequence[str], own: str) -> None:
        """Enable forwarding on the devices ``closed``, which are noted, and on ``own``. Raises: OSError."""
        write_private(self._note, "\n".join(closed))
        for device in (*closed, own):
            self._switch(device, forwards=True)

    def undo(self) -> None:
        """Disable forwarding on the devices in the note, and remove the note. Raises: OSError."""
        for device in self._note.read_text(encoding="utf-8").split() if self._note.exists() else []:
            if (self._devices / device).exists():
                self._switch(device, forwards=False)
        self._note.unlink(missing_ok=True)

    def _forwards(self, device: str) -> bool:
        return (self._devices / device / "forwarding").read_text(encoding="ascii").strip() == "1"

    def _switch(self, device: str, *, forwards: bool) -> None:
        (self._devices / device / "forwarding").write_text(f"{int(forwards)}\n", encoding="ascii")
