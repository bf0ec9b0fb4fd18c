# SPDX-License-Identifier: Apache-2.0
"""The metadata service of real guests of ``kilonova up``, and the options with which the host's agent answers it."""

import os

from kilonova.bundled_services.ovn_host import OvnHost
from kilonova.bundled_services.ovs_process import OvsProcess
from kilonova.bundled_services.settings import save
from kilonova.cli.up.children import RUN_MODULE
from kilonova.scenario.options import Sections

_MODULE = "kilonova.bundled_services.metadata_service"


class MetadataPart:
    """The process of the metadata service of a host. ``name``: of the process."""

    def __init__(self, host: OvnHost, name: str) -> None:
        self._settings = host.metadata_settings()
        self._file = host.folder.path / "metadata.json"
        self.process = OvsProcess(
            name,
            (*RUN_MODULE, _MODULE, "--settings", str(self._file)),
            self._settings.control,
            host.folder.path / "log" / "metadata.log",
            os.environ,
        )

    def options(self) -> Sections:
        """Return the options of the process with the host's agent."""
        return {"DEFAULT": {"metadata_socket": self._settings.agent}}

    def start(self) -> None:
        """Start the process and wait until it is ready. Call it in the main thread. Raises: Unavailable, OSError."""
        save(self._settings, self._file)
        self.process.start()
        self.process.wait()
