# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest

from api.compute_cloud import Cloud, start_cloud
from support.fake_neutron import FakeNeutron


@pytest.fixture
def neutron() -> FakeNeutron:
    """A network service."""
    return FakeNeutron()


@pytest.fixture
def networked(database_url: str, neutron: FakeNeutron) -> Iterator[Cloud]:
    """A cloud without hosts, with a network service."""
    started = start_cloud(database_url, network=neutron)
    yield started
    started.database.close()
