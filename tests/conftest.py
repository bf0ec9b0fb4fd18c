# SPDX-License-Identifier: Apache-2.0
import os

from hypothesis import settings

from support.broker import broker
from support.databases import (
    database,
    database_servers,
    database_url,
    empty_database_url,
    kind,
    open_database,
    sqlite_template,
)
from support.failures import pytest_runtest_makereport
from support.samples import sampled
from support.side_by_side import (
    pytest_collection,
    pytest_collection_modifyitems,
    pytest_configure_node,
    pytest_make_parametrize_id,
    pytest_runtest_protocol,
    pytest_xdist_make_scheduler,
)
from support.socket_folders import socket_folder

__all__ = [
    "broker",
    "database",
    "database_servers",
    "database_url",
    "empty_database_url",
    "kind",
    "open_database",
    "pytest_collection",
    "pytest_collection_modifyitems",
    "pytest_configure_node",
    "pytest_make_parametrize_id",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_xdist_make_scheduler",
    "socket_folder",
    "sqlite_template",
]

#: Profiles: ``same`` uses the same examples in every run, so that only code changes matter; ``new`` uses new ones.
settings.register_profile("same", derandomize=True, max_examples=sampled(100, sample=25))
settings.register_profile("new", max_examples=500)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
