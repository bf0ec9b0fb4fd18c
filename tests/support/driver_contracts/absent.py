# SPDX-License-Identifier: Apache-2.0
"""What is asked of a guest that is not there."""

from collections.abc import Callable

import pytest

from kilonova.errors import DriverError
from kilonova.identifiers import new_uuid
from support.driver_places import Place


def refuses_absent(place: Place, *calls: Callable[[str], object]) -> None:
    """Make calls about a guest that is not there: each is refused, and leaves nothing."""
    for call in calls:
        uuid = new_uuid()
        with pytest.raises(DriverError):
            call(uuid)
        assert place.left_behind(uuid) == []
