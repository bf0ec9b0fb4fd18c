# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.conductor.workflow_engine.services import Services
from kilonova.errors import Unavailable


def test_a_step_that_needs_the_image_service_is_left_to_a_process_with_a_user_there() -> None:
    nothing: Any = None
    services = Services(database=nothing, claimer=nothing, owner="me", max_attempts=3, begin=lambda _rows: None)
    with pytest.raises(Unavailable):
        _ = services.images
    keeper: Any = object()
    assert (
        Services(
            database=nothing, claimer=nothing, owner="me", max_attempts=3, begin=lambda _rows: None, image_keeper=keeper
        ).images
        is keeper
    )
