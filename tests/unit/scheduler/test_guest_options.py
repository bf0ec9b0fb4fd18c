# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.small_cloud import flavor

from kilonova.model.image import Image
from kilonova.scheduler.guest_options import guest_option, is_set, is_true, whole_number


@pytest.mark.parametrize(
    ("of_flavor", "of_image", "expected"),
    [("a", "b", "a"), ("", "b", "b"), (None, "b", "b"), (None, "", None), (None, None, None)],
)
def test_the_option_of_a_flavor_overrides_that_of_the_image(
    of_flavor: str | None, of_image: str | None, expected: str | None
) -> None:
    specs = {} if of_flavor is None else {"hw:cpu_policy": of_flavor}
    image = None if of_image is None else Image("i", properties={"hw_cpu_policy": of_image})
    assert guest_option(flavor(specs), image, "cpu_policy") == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("Yes", True), (" ON ", True), ("1", True), ("2", False), ("", False), (None, False)]
)
def test_texts_that_mean_yes(text: str | None, expected: bool) -> None:
    assert is_true(text) is expected
    assert is_set(flavor({} if text is None else {"hw:mem_encryption": text}), None, "mem_encryption") is expected


@pytest.mark.parametrize(("text", "number"), [("4", 4), (" +4 ", 4), ("0", 0), ("-1", None), ("4.0", None), ("", None)])
def test_a_whole_number_is_not_negative(text: str, number: int | None) -> None:
    assert whole_number(text) == number
