# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest
from support.guest_descriptions import described, guest_of


def test_a_tablet_needs_usb_unless_it_is_on_the_virtio_bus() -> None:
    plain = described(guest_of(), settings=LibvirtSettings(pointer_model="usbtablet")).devices
    assert [(each.type, each.bus) for each in plain.inputs] == [("tablet", "usb")]
    virtio = described(guest_of(properties={"hw_input_bus": "virtio"})).devices
    assert [(each.type, each.bus) for each in virtio.inputs] == [("tablet", "virtio"), ("keyboard", "virtio")]
    with pytest.raises(UnsupportedGuest, match="hw:usb_model=none excludes"):
        described(guest_of({"hw:usb_model": "none"}, {"hw_input_bus": "usb"}))


def test_video_memory_is_limited_by_the_flavor() -> None:
    asked = {"hw_video_ram": "64"}
    with pytest.raises(UnsupportedGuest, match="hw_video_ram=64 exceeds the flavor's hw_video:ram_max_mb=0"):
        described(guest_of(properties=asked))
    video = described(guest_of({"hw_video:ram_max_mb": "64"}, asked)).devices.video
    assert video is not None
    assert video.vram_kib == 64 * 1024


def test_a_request_that_cannot_be_met_is_refused_without_a_screen_too() -> None:
    consoles = ConsoleSettings(vnc_enabled=False)
    assert described(guest_of(properties={"hw_video_model": "VGA"}), consoles=consoles).devices.video is None
    with pytest.raises(UnsupportedGuest, match="hw_video_model=voodoo"):
        described(guest_of(properties={"hw_video_model": "voodoo"}), consoles=consoles)


@pytest.mark.parametrize(("ports", "is_refused"), [("0", False), ("00", False), ("4", True)])
def test_redirected_usb_ports_need_spice(ports: str, is_refused: bool) -> None:
    guest = guest_of({"hw:redirected_usb_ports": ports})
    if is_refused:
        with pytest.raises(UnsupportedGuest, match="SPICE"):
            described(guest)
    else:
        described(guest)
