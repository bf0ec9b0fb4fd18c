# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from kilonova.mirror.layout import NodeRows


def test_rows_are_found_by_the_id_of_the_node() -> None:
    rows = NodeRows(np.array([4, 0, 2], dtype=np.int32))
    assert {node: rows[node] for node in rows} == {4: 0, 0: 1, 2: 2}
    assert len(rows) == 3
    for unknown in (1, 5, 99):
        assert rows.get(unknown) is None
        assert rows.get(unknown, 7) == 7
        with pytest.raises(KeyError):
            rows[unknown]


def test_a_layout_without_hosts_has_no_rows() -> None:
    rows = NodeRows(np.array([], dtype=np.int32))
    assert (len(rows), list(rows), rows.get(0)) == (0, [], None)
