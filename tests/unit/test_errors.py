# SPDX-License-Identifier: Apache-2.0
import errno

import pytest

from kilonova.errors import NoValidHost, full_disk


def test_the_reason_of_a_driver_is_appended_to_the_message() -> None:
    assert NoValidHost().message == "No valid host was found."
    assert NoValidHost(reason="All racks are full.").message == "No valid host was found. All racks are full."
    assert NoValidHost("No host.", reason="unused", hosts=3).fields == {"hosts": 3}


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/data/kilonova.db"), "/data/kilonova.db"),
        (OSError(errno.EDQUOT, "Disk quota exceeded"), "/data"),
    ],
)
def test_the_place_of_a_full_disk_is_for_operators_only(error: OSError, place: str) -> None:
    full = full_disk(error, "/data")
    assert full.what == f"there is no room on the disk of {place}: {error.strerror}"
    assert place not in full.message
