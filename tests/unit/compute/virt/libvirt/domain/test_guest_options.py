# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.compute.virt.libvirt.domain.guest_options import GuestOptions, number, one_of, shown
from kilonova.errors import UnsupportedGuest
from support.guest_descriptions import guest_of


def options(specs: dict[str, str] | None = None, properties: dict[str, str] | None = None) -> GuestOptions:
    return GuestOptions(guest_of(specs, properties))


def test_flavor_and_image_may_both_set_a_value_if_it_is_the_same() -> None:
    assert options({"hw:mem_page_size": "Large"}, {"hw_mem_page_size": "large"}).agreed("mem_page_size") == "Large"
    assert options({}, {"hw_mem_page_size": "large"}).agreed("mem_page_size") == "large"
    assert options({"hw:mem_page_size": ""}, {}).agreed("mem_page_size") is None
    with pytest.raises(UnsupportedGuest, match="hw:mem_page_size=small contradicts the image's hw_mem_page_size=large"):
        options({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "large"}).agreed("mem_page_size")


def test_flags_agree_by_their_meaning() -> None:
    assert options({"hw:boot_menu": "Yes"}, {"hw_boot_menu": "1"}).agreed_flag("boot_menu") is True
    assert options({"hw:boot_menu": "no"}, {"hw_boot_menu": "whatever"}).agreed_flag("boot_menu") is False
    assert options().agreed_flag("boot_menu") is None
    with pytest.raises(UnsupportedGuest, match="contradicts"):
        options({"hw:boot_menu": "yes"}, {"hw_boot_menu": "no"}).agreed_flag("boot_menu")


@pytest.mark.parametrize("text", ["", "x", "1.5", "-1", "9", "\u0663", "1" * 19, " "])
def test_a_number_that_cannot_be_read_is_named_with_its_bounds(text: str) -> None:
    with pytest.raises(UnsupportedGuest, match=r"hw_video_ram=.* is not an integer from 0 to 8"):
        number("hw_video_ram", text, most=8)


def test_numbers_at_their_bounds_are_read() -> None:
    assert [number("n", text, least=1, most=8) for text in ("1", "8", "08", None)] == [1, 8, 8, None]


def test_a_value_without_support_names_those_with_support() -> None:
    assert one_of("hw_input_bus", None, ()) is None
    with pytest.raises(UnsupportedGuest, match=r"hw_input_bus=ps2 is not supported by this host \(supported: usb, vi"):
        one_of("hw_input_bus", "ps2", ("virtio", "usb"))
    with pytest.raises(UnsupportedGuest, match=r"\(supported: none\)"):
        one_of("hw_input_bus", "usb", ())


def test_values_of_users_stay_short_and_on_one_line() -> None:
    assert shown("x\ny\x1b") == r"x\ny\x1b"
    assert len(shown("x" * 500)) == 78
