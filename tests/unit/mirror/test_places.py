# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from kilonova.mirror.layout import PlaceRows
from kilonova.mirror.places import Places


def numbers(*listed: int) -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
    return np.array(listed, dtype=np.int32)


def test_numbers_are_given_once() -> None:
    places = Places()
    pairs = [("h0", "h0"), ("h1", "h1.example"), ("h1", "other"), ("h0", "h1"), ("h1", "h0")]
    given = [places.place(*pair) for pair in pairs]
    assert sorted(given) == list(range(len(pairs)))
    assert [places.place(*pair) for pair in pairs] == given
    assert len(places) == len(pairs)
    found = numbers(*given)
    assert list(zip(places.hosts_of(found), places.nodes_of(found), strict=True)) == pairs


def test_the_first_hypervisor_that_is_named_has_the_number_of_its_host() -> None:
    places = Places()
    host = places.host("h0")
    assert places.host("h1") != host
    assert places.find_host("h0") == host
    assert places.find_host("h2") is None
    assert places.place("h0", "first") == host
    assert places.further() == []
    assert places.place("h0", "second") != host
    assert places.further() == [(places.place("h0", "second"), host)]


def test_rows_of_places() -> None:
    rows = PlaceRows(numbers(7, 0, 3))
    assert dict(rows) == {7: 0, 0: 1, 3: 2}
    assert len(rows) == 3
    for absent in (1, 8, 1000):
        assert rows.get(absent) is None
        assert rows.get(absent, -5) == -5
        with pytest.raises(KeyError):
            rows[absent]
    assert dict(PlaceRows(numbers())) == {}
    assert PlaceRows(numbers()).get(0) is None
