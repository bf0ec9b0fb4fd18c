# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest
from compute_cloud import Cloud, start_cloud


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
