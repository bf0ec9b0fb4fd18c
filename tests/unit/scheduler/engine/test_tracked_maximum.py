# SPDX-License-Identifier: Apache-2.0
import random

import numpy as np

from kilonova.scheduler.engine.tracked_maximum import TrackedMaximum


def test_the_largest_value_is_known_while_rows_come_go_and_change() -> None:
    chance = random.Random(1)
    values = {row: float(chance.randrange(50)) for row in range(300)}

    def columns() -> tuple[np.ndarray, np.ndarray]:
        rows = sorted(values)
        return np.array([values[row] for row in rows]), np.array(rows, dtype=np.int64)

    highest, surveys = TrackedMaximum(*columns(), 64), 0
    for _ in range(3000):
        row = chance.randrange(300)
        if chance.random() < 0.3:
            values.pop(row, None)
            highest.drop([row])
        else:
            changed = sorted(chance.sample(range(300), chance.choice((1, 1, 1, 40))))
            values |= {row: float(chance.randrange(50)) for row in changed}
            highest.put(changed, np.array([values[row] for row in changed]))
        found = highest.look()
        if found is None:
            found, surveys = highest.survey(*columns()), surveys + 1
        assert found == max(values.values())
    assert surveys < 300


def test_no_rows_have_no_largest_value() -> None:
    nothing = np.zeros(0), np.zeros(0, dtype=np.int64)
    assert TrackedMaximum(*nothing, 64).survey(*nothing) == -np.inf
