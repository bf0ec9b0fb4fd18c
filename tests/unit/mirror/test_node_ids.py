# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from kilonova.mirror.layout import NodeRows
from kilonova.mirror.node_ids import NodeIds


def numbers(*listed: int) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    return np.array(listed, dtype=np.int32)


def test_numbers_are_given_once() -> None:
    node_ids = NodeIds()
    pairs = [("h0", "h0"), ("h1", "h1.example"), ("h1", "other"), ("h0", "h1"), ("h1", "h0")]
    given = [node_ids.node(*pair) for pair in pairs]
    assert sorted(given) == list(range(len(pairs)))
    assert [node_ids.node(*pair) for pair in pairs] == given
    assert len(node_ids) == len(pairs)
    found = numbers(*given)
    assert list(zip(node_ids.hosts_of(found), node_ids.nodes_of(found), strict=True)) == pairs


def test_the_first_hypervisor_that_is_named_has_the_number_of_its_host() -> None:
    node_ids = NodeIds()
    host = node_ids.host("h0")
    assert node_ids.host("h1") != host
    assert node_ids.find_host("h0") == host
    assert node_ids.find_host("h2") is None
    assert node_ids.node("h0", "first") == host
    assert node_ids.extra_nodes() == []
    assert node_ids.node("h0", "second") != host
    assert node_ids.extra_nodes() == [(node_ids.node("h0", "second"), host)]


def test_rows_of_places() -> None:
    rows = NodeRows(numbers(7, 0, 3))
    assert dict(rows) == {7: 0, 0: 1, 3: 2}
    assert len(rows) == 3
    for absent in (1, 8, 1000):
        assert rows.get(absent) is None
        assert rows.get(absent, -5) == -5
        with pytest.raises(KeyError):
            rows[absent]
    assert dict(NodeRows(numbers())) == {}
    assert NodeRows(numbers()).get(0) is None
