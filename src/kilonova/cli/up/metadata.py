# SPDX-License-Identifier: Apache-2.0
"""The metadata service of real guests of ``kilonova up``, and the options with which the host's agent answers it."""

import os
import sys
from collections.abc import Mapping
from typing import Any

from kilonova.bundled_services.ovn import Ovn
from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.bundled_services.settings import save

_MODULE = "kilonova.bundled_services.metadata_service"


class MetadataPart:
    """The process of the metadata service."""

    def __init__(self, ovn: Ovn) -> None:
        self._settings = ovn.metadata_settings()
        self._file = ovn.folder / "metadata.json"
        self.process = OvsProcess(
            "metadata",
            (sys.executable, "-m", _MODULE, "--settings", str(self._file)),
            self._settings.control,
            ovn.folder / "log" / "metadata.log",
            os.environ,
        )

    def options(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the options of the process with the host's agent."""
        return {"DEFAULT": {"metadata_socket": self._settings.agent}}

    def start(self) -> None:
        """Start the process and wait until it is ready. Call it in the main thread. Raises: Unavailable, OSError."""
        save(self._settings, self._file)
        self.process.start()
        self.process.wait()
