# SPDX-License-Identifier: Apache-2.0
"""The metadata service of real guests of ``kilonova up``, and the options that make the control process answer it."""

import os
import secrets
import sys
from collections.abc import Mapping
from typing import Any

from kilonova.bundled_services.ovn import Ovn
from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.bundled_services.settings import save

_MODULE = "kilonova.bundled_services.metadata_service"


class MetadataPart:
    """The process of the metadata service. ``url``: address of the metadata API of the control process."""

    def __init__(self, ovn: Ovn, url: str) -> None:
        self._secret = secrets.token_hex(32)
        self._settings = ovn.metadata_settings(url, self._secret)
        self._file = ovn.folder / "metadata.json"
        self.process = OvsProcess(
            "metadata",
            (sys.executable, "-m", _MODULE, "--settings", str(self._file)),
            self._settings.control,
            ovn.folder / "log" / "metadata.log",
            os.environ,
        )

    def options(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the options of the control process."""
        return {"neutron": {"service_metadata_proxy": "true", "metadata_proxy_shared_secret": self._secret}}

    def start(self) -> None:
        """Start the process and wait until it is ready. Call it in the main thread. Raises: Unavailable, OSError."""
        save(self._settings, self._file)
        self.process.start()
        self.process.wait()
