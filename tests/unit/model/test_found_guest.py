# SPDX-License-Identifier: Apache-2.0
from datetime import datetime, timedelta

import pytest

from kilonova.model.found_guest import Removal, RemovalReason, StrayGuest, StrayKind

RECORDED = datetime(2026, 1, 2, 3, 4, 5)  # noqa: DTZ001 - as the tables keep it
REMOVAL = Removal("server", RemovalReason.DELETED, RECORDED)


@pytest.mark.parametrize(
    ("ordered_at", "covered"),
    [
        (None, False),
        (RECORDED - timedelta(seconds=1), True),
        (RECORDED, True),
        (RECORDED + timedelta(microseconds=1), False),
    ],
)
def test_a_removal_covers_marked_guests_that_are_not_younger_than_its_record(
    ordered_at: datetime | None, covered: bool
) -> None:
    assert REMOVAL.covers(ordered_at) is covered


def test_a_missing_guest_is_the_one_stray_without_a_guest() -> None:
    strays = {kind for kind in StrayKind if StrayGuest("node1", "server", kind).is_stray}
    assert strays == set(StrayKind) - {StrayKind.MISSING}
