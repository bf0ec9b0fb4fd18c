# SPDX-License-Identifier: Apache-2.0
"""Options in the file of the operator replace those of the embedded cloud."""

from pathlib import Path
from typing import Any

import pytest

from kilonova.cli.up.cloud_files import Cloud, make_folder, write_conf
from kilonova.cli.up.operator_file import operator_options
from kilonova.cli.wiring.addresses import Address
from kilonova.config.load import load_settings


def filters_of(tmp_path: Path, scenario: dict[str, Any] | None = None, more: str = "") -> tuple[str, ...]:
    make_folder(tmp_path / "data")
    address = Address("127.0.0.1", 1)
    cloud = Cloud(tmp_path / "data", address, address, address, hosts=3)
    own = tmp_path / "own.conf"
    own.write_text(more)
    write_conf(cloud, None, scenario or {}, operator_options(own))
    return load_settings([str(cloud.conf), str(own)]).scheduler.enabled_filters


@pytest.mark.parametrize(
    "more",
    [
        "[filter_scheduler]\nenabled_filters = ComputeFilter\n",
        "[DEFAULT]\nscheduler_default_filters = ComputeFilter\n",
    ],
)
def test_an_operator_who_chooses_filters_gets_these(tmp_path: Path, more: str) -> None:
    assert filters_of(tmp_path, more=more) == ("ComputeFilter",)
