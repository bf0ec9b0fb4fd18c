# SPDX-License-Identifier: Apache-2.0
"""Options in the file of the operator replace those of the embedded cloud."""

import pytest

from kilonova.cli.up.cloud_files import Cloud
from kilonova.cli.up.operator_file import require_possible_workers
from kilonova.errors import ConfigurationError
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


@pytest.mark.parametrize("database", [{}, {"database": {"connection": "sqlite:////k.db"}}])
def test_several_workers_need_a_database_server_of_the_operator(database: dict[str, dict[str, str]]) -> None:
    for workers in ("1", "", "many"):
        require_possible_workers({"DEFAULT": {"osapi_compute_workers": workers}, **database})
    with pytest.raises(ConfigurationError, match="osapi_compute_workers = 2 needs PostgreSQL or MariaDB"):
        require_possible_workers({"DEFAULT": {"osapi_compute_workers": "2"}, **database})


def test_several_workers_on_a_database_server_are_possible() -> None:
    sections = {"DEFAULT": {"osapi_compute_workers": "2"}, "database": {"connection": "postgresql://db/kilonova"}}
    require_possible_workers(sections)
