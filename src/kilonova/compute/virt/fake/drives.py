# SPDX-License-Identifier: Apache-2.0
"""Config drives of simulated guests: FOLDER/config_drives/HOST/INSTANCE.iso, in a rescue also INSTANCE.rescue.iso."""

import contextlib
from collections.abc import Collection
from pathlib import Path
from urllib.parse import quote

from kilonova.compute.config_drives import iso9660_of
from kilonova.errors import DriverError
from kilonova.guest_metadata import files_of
from kilonova.model.instance import GuestSpec

_SUFFIX, _RESCUE_SUFFIX, _DRAFT = ".iso", ".rescue.iso", ".part"


class Drives:
    """The config drives of one host. They contain secrets, so only the user that runs the agent may read them."""

    def __init__(self, folder: Path, host: str) -> None:
        self._folder = folder / quote(host, safe="")
        self._host = host

    def make(self, guest: GuestSpec) -> None:
        """Make or replace the config drive of a guest, if the guest is to have one. Raises: DriverError."""
        self._make(guest, self._file(guest.uuid))

    def make_for_rescue(self, guest: GuestSpec) -> None:
        """Make the config drive that a guest has during a rescue. Raises: DriverError."""
        self._make(guest, self._file(guest.uuid, _RESCUE_SUFFIX))

    def end_rescue(self, uuid: str) -> None:
        """Remove the config drive of a rescue; no error if absent."""
        self._file(uuid, _RESCUE_SUFFIX).unlink(missing_ok=True)

    def _make(self, guest: GuestSpec, drive: Path) -> None:
        if guest.config_drive is None:
            return
        draft = drive.with_suffix(_DRAFT)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            draft.touch(0o600)
            draft.write_bytes(iso9660_of(files_of(guest, guest.config_drive)))
            draft.replace(drive)
        except OSError as error:
            with contextlib.suppress(OSError):
                draft.unlink(missing_ok=True)
            raise DriverError(f"Host {self._host} cannot make a config drive: {error.strerror}.") from error

    def remove(self, uuid: str) -> None:
        """Remove the config drives of a guest; no error if absent."""
        self.end_rescue(uuid)
        self._file(uuid).unlink(missing_ok=True)

    def keep_only(self, uuids: Collection[str]) -> None:
        """Remove the config drives of all guests that are not in ``uuids``."""
        with contextlib.suppress(FileNotFoundError):
            for file in list(self._folder.iterdir()):
                if file.suffix == _DRAFT or file.name.partition(".")[0] not in uuids:
                    file.unlink(missing_ok=True)

    def _file(self, uuid: str, suffix: str = _SUFFIX) -> Path:
        return self._folder / f"{uuid}{suffix}"
