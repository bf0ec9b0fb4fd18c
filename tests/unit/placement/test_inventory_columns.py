# SPDX-License-Identifier: Apache-2.0
import numpy as np

from kilonova.model.provider import Inventory
from kilonova.placement.inventory_columns import InventoryColumns, bits_by_name


def test_a_class_that_a_record_lacks_has_no_total_and_the_defaults_of_inventories() -> None:
    disk = Inventory("DISK_GB", 100, reserved=10, allocation_ratio=2.0, min_unit=5, max_unit=50, step_size=5)
    columns = InventoryColumns.of([(Inventory("VCPU", 4),), (disk,)], [{"VCPU": 3}, {}])
    assert columns.resource_classes == ("VCPU", "DISK_GB")
    assert columns.total.tolist() == [[4, 0], [0, 100]]
    assert columns.used.tolist() == [[3, 0], [0, 0]]
    assert columns.capacity.tolist() == [[4, 0], [0, 180]]
    units = [each.tolist() for each in (columns.min_unit[:, 1], columns.max_unit[:, 1], columns.step_size[:, 1])]
    assert units == [[1, 5], [1, 50], [1, 5]]
    assert columns.allocation_ratio[:, 1].tolist() == [1.0, 2.0]


def test_bits_have_a_row_for_each_name_in_any_set() -> None:
    rows, bits = bits_by_name([frozenset({"B"}), frozenset(), frozenset({"A", "B"})])
    assert rows == {"A": 0, "B": 1}
    assert np.array_equal(bits, [[False, False, True], [True, False, True]])
