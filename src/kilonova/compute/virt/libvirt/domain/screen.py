# SPDX-License-Identifier: Apache-2.0
"""Devices of a graphical console: VNC server, video card, pointer, keyboard, and the USB controller for them."""

from collections.abc import Sequence

from kilonova.compute.virt.libvirt.domain.board import Board
from kilonova.compute.virt.libvirt.domain.device_description import Controller, Disk, Graphics, Input, Video
from kilonova.compute.virt.libvirt.domain.guest_options import GuestOptions, one_of
from kilonova.config.consoles import ConsoleSettings
from kilonova.config.libvirt import LibvirtSettings
from kilonova.errors import UnsupportedGuest

_INPUT_BUSES = ("usb", "virtio")
_USB_MODELS = ("none", "nec-xhci", "qemu-xhci")
#: Default video models, best first. A virtio card works as a VGA card in guests that have no virtio driver.
_PREFERRED_VIDEO = ("virtio", "vga", "bochs")


def describe_graphics(consoles: ConsoleSettings) -> Graphics | None:
    return Graphics(consoles.vnc_listen) if consoles.vnc_enabled else None


def describe_video(options: GuestOptions, board: Board, graphics: Graphics | None) -> Video | None:
    """Return the video card, or None for a guest without a screen. Raises: UnsupportedGuest naming the property."""
    known = board.facts.video_models if board.facts is not None else frozenset()
    model = options.property("hw_video_model")
    if model is not None and known:
        one_of("hw_video_model", model.lower(), known)
    vram_mib = options.property_number("hw_video_ram") or 0
    allowed_mib = options.spec_number("hw_video:ram_max_mb") or 0
    if vram_mib > allowed_mib:
        raise UnsupportedGuest(f"hw_video_ram={vram_mib} exceeds the flavor's hw_video:ram_max_mb={allowed_mib}.")
    if graphics is None:
        return None
    if model is None:
        model = next((each for each in _PREFERRED_VIDEO if each in known), _PREFERRED_VIDEO[0])
    return Video(model.lower(), vram_mib * 1024 or None)


def describe_inputs(
    options: GuestOptions, board: Board, settings: LibvirtSettings, graphics: Graphics | None
) -> tuple[Input, ...]:
    """Return the input devices of a guest with a screen, besides the keyboard and mouse that an x86 board has anyway.

    Raises: UnsupportedGuest naming the property.
    """
    bus = one_of("hw_input_bus", options.property("hw_input_bus"), _INPUT_BUSES)
    pointer = one_of("hw_pointer_model", options.property("hw_pointer_model"), ("usbtablet",))
    if graphics is None:
        return ()
    if bus is not None:
        return Input("tablet", bus), Input("keyboard", bus)
    tablet = (Input("tablet", "usb"),) if pointer or settings.pointer_model == "usbtablet" else ()
    return tablet if board.is_x86 else (*tablet, Input("keyboard", "usb"))


def usb_controller(
    options: GuestOptions, disks: Sequence[Disk], inputs: Sequence[Input], sound: str | None
) -> Controller:
    """Return the USB controller; its model is "none" if the guest has no USB devices and requests no controller.

    Raises: UnsupportedGuest naming the property.
    """
    model = one_of("hw:usb_model", options.agreed("usb_model"), _USB_MODELS)
    ports = options.agreed("redirected_usb_ports")
    if ports is not None and ports.strip("0") != "":
        raise UnsupportedGuest("hw:redirected_usb_ports needs SPICE consoles, which this host does not have.")
    needed = "usb" in {sound, *(disk.bus for disk in disks), *(device.bus for device in inputs)}
    if needed and model == "none":
        raise UnsupportedGuest("hw:usb_model=none excludes the USB devices that the guest requests.")
    return Controller("usb", 0, model if needed else model or "none")
