# SPDX-License-Identifier: Apache-2.0
"""The driver of docs/writing-a-driver.md, without optional abilities."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from kilonova.compute.files.images import HostImages
from kilonova.compute.virt.host_setup import HostSetup

EXAMPLES = Path(__file__).parents[2] / "examples"
_spec = spec_from_file_location("file_driver", EXAMPLES / "file_driver.py")
assert _spec is not None
assert _spec.loader is not None
_module = module_from_spec(_spec)
_spec.loader.exec_module(_module)
FileDriver: type[Any] = _module.FileDriver


def setup_in(folder: Path, host: str = "node1", transfers: Any = None) -> HostSetup:
    """Return the set-up of a host with all files in one folder."""
    return HostSetup(host, folder, HostImages(folder / "_base", max_bytes=1 << 30, transfers=transfers))
