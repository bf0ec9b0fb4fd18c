# SPDX-License-Identifier: Apache-2.0
from collections.abc import Iterator

import pytest

from api.placement.placement_service import Placement, start_placement


@pytest.fixture
def placement(database_url: str) -> Iterator[Placement]:
    """A Placement without providers."""
    started = start_placement(database_url)
    yield started
    started.database.close()
