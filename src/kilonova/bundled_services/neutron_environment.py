# SPDX-License-Identifier: Apache-2.0
"""The virtual environment of Neutron: ``.venv-networks`` beside Kilonova's own, created by ``tools/networks.sh``."""

import sys
from importlib.util import find_spec
from pathlib import Path

from kilonova.errors import ConfigurationError

NAME = ".venv-networks"


def neutron_python(environment: Path | None = None) -> str:
    """Return the interpreter that can import Neutron and Kilonova.

    ``environment``: Kilonova's environment; None: that of this process. Raises: ConfigurationError.
    """
    python = (environment or Path(sys.prefix)).with_name(NAME) / "bin" / "python"
    if python.exists() and (python.parent.parent / ".stamp").exists():
        return str(python)
    if environment is None and find_spec("neutron") is not None:
        return sys.executable
    raise ConfigurationError("--networks needs Neutron, which is not installed; type: tools/networks.sh")
