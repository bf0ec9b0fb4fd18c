# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest

from api.compute_cloud import Cloud, start_cloud
from support.fake_neutron import FakeNeutron


@pytest.fixture
def neutron() -> FakeNeutron:
    """A network service that knows the users of ``networked``."""
    started = FakeNeutron()
    started.user("admin", "admin", is_admin=True)
    started.user("alice:wonder", "wonder")
    started.user("mallory:elsewhere", "elsewhere")
    return started


@pytest.fixture
def networked(database_url: str, neutron: FakeNeutron) -> Iterator[Cloud]:
    """A cloud without hosts, with a network service."""
    started = start_cloud(database_url, network=neutron)
    yield started
    started.database.close()
