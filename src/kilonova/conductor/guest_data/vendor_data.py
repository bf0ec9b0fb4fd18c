# SPDX-License-Identifier: Apache-2.0
"""What the operator tells all guests: a file with a JSON object."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from kilonova.errors import ConfigurationError

LOG = logging.getLogger(__name__)


def vendor_data_of(file: Path | None) -> Callable[[], Mapping[str, Any]]:
    """Return what tells the vendor data of the moment; without a file there are none. Raises: ConfigurationError."""
    return dict if file is None else VendorDataFile(file)


class VendorDataFile:
    """Reads the file again when it has changed; one that cannot be read any more counts as it was.

    Raises: ConfigurationError when it cannot be read at first.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._changed_at, self._data = self._read()

    def __call__(self) -> Mapping[str, Any]:
        try:
            if self._file.stat().st_mtime_ns != self._changed_at:
                self._changed_at, self._data = self._read()
        except (OSError, ConfigurationError) as error:
            LOG.warning("Vendor data stay as they were: %s", error)
        return self._data

    def _read(self) -> tuple[int, Mapping[str, Any]]:
        where = f"[api] vendordata_jsonfile_path: {self._file}"
        try:
            changed_at = self._file.stat().st_mtime_ns
            data = orjson.loads(self._file.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"{where} cannot be read: {error.strerror}.") from error
        except orjson.JSONDecodeError as error:
            raise ConfigurationError(f"{where} is no JSON: {error}.") from error
        if not isinstance(data, dict):
            raise ConfigurationError(f"{where} has to hold a JSON object.")
        return changed_at, data
