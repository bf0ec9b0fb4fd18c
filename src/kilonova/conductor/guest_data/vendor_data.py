# SPDX-License-Identifier: Apache-2.0
"""Vendor data: the operator's static metadata for all guests, from a file with a JSON object."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from kilonova.errors import ConfigurationError

LOG = logging.getLogger(__name__)


def vendor_data_of(file: Path | None) -> Callable[[], Mapping[str, Any]]:
    """Return a function that returns the vendor data in ``file``, or {} without a file. Raises: ConfigurationError."""
    return dict if file is None else VendorDataFile(file)


class VendorDataFile:
    """Function that returns the vendor data of a file. The data are cached until the file changes.

    If the file becomes unreadable, the cached data stay in use. Raises: ConfigurationError if the first read fails.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._changed_at, self._data = self._read()

    def __call__(self) -> Mapping[str, Any]:
        try:
            if self._file.stat().st_mtime_ns != self._changed_at:
                self._changed_at, self._data = self._read()
        except (OSError, ConfigurationError) as error:
            LOG.warning("Vendor data were not updated: %s", error)
        return self._data

    def _read(self) -> tuple[int, Mapping[str, Any]]:
        where = f"[api] vendordata_jsonfile_path: {self._file}"
        try:
            changed_at = self._file.stat().st_mtime_ns
            data = orjson.loads(self._file.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"{where} cannot be read: {error.strerror}.") from error
        except orjson.JSONDecodeError as error:
            raise ConfigurationError(f"{where} is not valid JSON: {error}.") from error
        if not isinstance(data, dict):
            raise ConfigurationError(f"{where} must contain a JSON object.")
        return changed_at, data
