# SPDX-License-Identifier: Apache-2.0
import random

import numpy as np
import pytest

from kilonova.scheduler.decision import SURVIVED
from kilonova.scheduler.engine.shared_end import SharedEnd


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("most", [1, 2, 5, 64])
def test_the_largest_of_the_remaining_hosts_after_any_changes(sign: int, most: int) -> None:
    chance = random.Random(most * sign)
    raw = np.array([float(chance.randint(-3, 9)) for _ in range(40)])
    end = SharedEnd(raw, sign, most)
    listed = 0
    for _ in range(600):
        rows = [chance.randrange(40) for _ in range(chance.choice((0, 1, 1, 3)))]
        for row in rows:
            raw[row] = chance.randint(-3, 9)
        end.put(rows, raw[rows].tolist())
        removed_by = np.array([chance.choice((0, SURVIVED)) for _ in range(40)], dtype=np.uint8)
        found = end.largest(removed_by.data)
        listed += found is not None
        assert found in {None, max(sign * raw[removed_by == SURVIVED], default=None)}
    assert listed > 200


def test_no_listed_host_remains() -> None:
    end = SharedEnd(np.arange(9.0), 1, 2)
    removed_by = np.zeros(9, dtype=np.uint8)
    removed_by[3] = SURVIVED
    assert end.largest(removed_by.data) is None
    removed_by[7] = SURVIVED
    assert end.largest(removed_by.data) == 7
