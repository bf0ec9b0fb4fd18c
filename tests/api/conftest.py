# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator
from pathlib import Path

import pytest

from api.access_world import World, start_world
from api.compute_cloud import Cloud, start_cloud
from support.api_client import Client
from support.control import Control, NewControl, new_controls
from support.fake_neutron import FakeNeutron
from support.identity import Identity, start_identity
from support.notified_cloud import notified, notified_server

__all__ = ["notified", "notified_server"]


@pytest.fixture(params=["sqlite"])
def kind(request: pytest.FixtureRequest) -> str:
    """Which database the test runs on. Modules that tell whole stories are marked to run on every kind."""
    return str(request.param)


@pytest.fixture
def cloud(database_url: str) -> Iterator[Cloud]:
    """A cloud without hosts."""
    started = start_cloud(database_url)
    yield started
    started.database.close()


@pytest.fixture
def new_control(sqlite_template: Path, tmp_path: Path) -> Iterator[NewControl]:
    """Starts control processes for one test."""
    with new_controls(sqlite_template, tmp_path) as start:
        yield start


@pytest.fixture(scope="module")
def new_shared_control(sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewControl]:
    """Starts control processes for all tests of a module."""
    with new_controls(sqlite_template, tmp_path_factory.mktemp("shared")) as start:
        yield start


@pytest.fixture
def control(new_control: NewControl) -> Control:
    """A control process with two simulated hosts and one flavor."""
    return new_control()


@pytest.fixture
def networked_control(new_control: NewControl) -> Control:
    """A control process with two simulated hosts, one flavor and a network service."""
    return new_control(network=FakeNeutron())


@pytest.fixture
def operator(control: Control) -> Client:
    """A client of the operator API of ``control``."""
    return control.operator


@pytest.fixture(scope="session")
def identity(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Identity]:
    """A Keystone, which takes seconds to start: one for all modules that need a real one."""
    nested = {"UNIFIED_LIMIT__ENFORCEMENT_MODEL": "strict_two_level"}
    with start_identity(tmp_path_factory.mktemp("identity") / "keystone", **nested) as started:
        yield started


@pytest.fixture(scope="module")
def world(identity: Identity, sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with start_world(tmp_path_factory.mktemp("access"), sqlite_template, identity) as started:
        yield started
