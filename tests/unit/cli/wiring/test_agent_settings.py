# SPDX-License-Identifier: Apache-2.0
import os
from pathlib import Path

import pytest

from kilonova.cli.wiring.agent_settings import make_folder, ratios_of
from kilonova.config.compute import ComputeSettings
from kilonova.errors import ConfigurationError


def test_a_ratio_that_is_not_set_is_the_initial_one() -> None:
    ratios = ratios_of(
        ComputeSettings(
            cpu_allocation_ratio=0.0,
            initial_cpu_allocation_ratio=4.0,
            ram_allocation_ratio=2.0,
            initial_ram_allocation_ratio=1.0,
        )
    )
    assert (ratios.cpu, ratios.memory) == (4.0, 2.0)


def test_a_folder_is_private_and_a_failure_names_the_option(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(tmp_path / "state", "[fake] state_dir")
    finally:
        os.umask(before)
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    make_folder(tmp_path / "state", "[fake] state_dir")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"\[fake\] state_dir: .*file"):
        make_folder(tmp_path / "file" / "state", "[fake] state_dir")
