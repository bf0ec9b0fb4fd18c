# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.bundled_services.neutron_environment import NAME, neutron_python
from kilonova.errors import ConfigurationError


def _make(tmp_path: Path) -> Path:
    python = tmp_path / NAME / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    return python


def test_the_environment_beside_that_of_kilonova_is_used(tmp_path: Path) -> None:
    python = _make(tmp_path)
    (tmp_path / NAME / ".stamp").touch()
    assert neutron_python(tmp_path / ".venv") == str(python)


def test_without_a_complete_environment_the_error_names_the_command(tmp_path: Path) -> None:
    _make(tmp_path)
    with pytest.raises(ConfigurationError, match=r"--networks needs Neutron.*tools/networks\.sh$"):
        neutron_python(tmp_path / ".venv")
