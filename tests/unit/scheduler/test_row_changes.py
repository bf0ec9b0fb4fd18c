# SPDX-License-Identifier: Apache-2.0
from kilonova.scheduler.row_changes import RowChanges


def listed(changes: RowChanges, number: int) -> list[int] | None:
    rows = changes.since(number)
    return None if rows is None else rows.tolist()


def test_each_reader_gets_the_rows_that_changed_since_its_last_read() -> None:
    changes = RowChanges(10)
    first = changes.number()
    changes.mark(7)
    changes.mark(2)
    changes.mark(7)
    assert listed(changes, first) == [2, 7]
    second = changes.number()
    assert listed(changes, second) == []
    changes.mark(7)
    assert listed(changes, second) == [7]
    assert listed(changes, first) == [2, 7]


def test_a_row_that_changes_often_between_two_reads_takes_one_place() -> None:
    changes = RowChanges(10, capacity=2)
    number = changes.number()
    for _ in range(5):
        changes.mark(3)
    changes.mark(4)
    assert listed(changes, number) == [3, 4]


def test_a_reader_that_is_too_late_is_told_so() -> None:
    changes = RowChanges(10, capacity=2)
    number = changes.number()
    for row in (1, 2, 3):
        changes.mark(row)
    assert changes.since(number) is None
    assert listed(changes, number + 1) == [2, 3]
