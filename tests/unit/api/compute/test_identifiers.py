# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.api.compute.identifiers import integer_id, uuid_id
from kilonova.errors import InvalidRequest


@pytest.mark.parametrize(
    ("text", "number"),
    [("7", 7), ("-7", -7), ("007", 7), (str(2**63 - 1), 2**63 - 1), (str(2**63), -1), ("9" * 5000, -1)],
)
def test_an_integer_beyond_64_bits_is_an_id_that_no_row_has(text: str, number: int) -> None:
    assert integer_id(text, "aggregate") == number


@pytest.mark.parametrize("text", ["", "1.0", "+1", " 1", "٣", "x"])
def test_other_texts_are_no_integers(text: str) -> None:
    with pytest.raises(InvalidRequest, match="aggregate must be an integer"):
        integer_id(text, "aggregate")


def test_a_uuid_gets_its_canonical_form() -> None:
    assert uuid_id("{5B674F7300004000800000000000000A}", "service") == "5b674f73-0000-4000-8000-00000000000a"
    with pytest.raises(InvalidRequest, match="service must be a UUID"):
        uuid_id("5b674f73", "service")
