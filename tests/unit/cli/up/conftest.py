# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import pytest

from kilonova.cli.up.cloud_files import Cloud, make_folder
from kilonova.cli.wiring.addresses import Address


@pytest.fixture
def cloud(tmp_path: Path) -> Cloud:
    """A cloud of seven hosts with its data folder. Nothing of it is started."""
    folder = tmp_path / "data"
    make_folder(folder)
    return Cloud(folder, Address("127.0.0.1", 1), Address("127.0.0.1", 2), Address("127.0.0.1", 3), hosts=7)
