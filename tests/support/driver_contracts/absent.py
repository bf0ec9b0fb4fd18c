# SPDX-License-Identifier: Apache-2.0
"""Calls for a guest that does not exist."""

from collections.abc import Callable

import pytest

from kilonova.errors import DriverError
from kilonova.identifiers import new_uuid
from support.driver_places import Place


def refuses_absent(place: Place, *calls: Callable[[str], object]) -> None:
    """Assert that each call for an absent guest raises, and that it leaves nothing on the host."""
    for call in calls:
        uuid = new_uuid()
        with pytest.raises(DriverError):
            call(uuid)
        assert place.left_behind(uuid) == []
