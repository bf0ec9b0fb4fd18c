# SPDX-License-Identifier: Apache-2.0
"""Options in the file of the operator replace those of the embedded cloud."""

import pytest

from kilonova.cli.up.cloud_files import Cloud
from support.up_filters import filters_of


@pytest.mark.parametrize(
    "more",
    [
        "[filter_scheduler]\nenabled_filters = ComputeFilter\n",
        "[DEFAULT]\nscheduler_default_filters = ComputeFilter\n",
    ],
)
def test_an_operator_who_chooses_filters_gets_these(cloud: Cloud, more: str) -> None:
    assert filters_of(cloud, more=more) == ("ComputeFilter",)
