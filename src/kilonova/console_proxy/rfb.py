# SPDX-License-Identifier: Apache-2.0
"""The handshakes of the VNC protocol: with the hypervisor and with the viewer, both without VNC authentication.

The viewer is authenticated by its token. A hypervisor that requires a password or certificates (VeNCrypt) is not
supported, because the viewer has neither.

Source: RFC 6143 (The Remote Framebuffer Protocol), section 7.1.
"""

import re
import struct
from typing import Protocol

from kilonova.errors import Unavailable

_VERSION = b"RFB 003.008\n"
_A_VERSION = re.compile(rb"RFB (\d{3})\.(\d{3})\n")
_NONE = 1
_NEWEST, _OLDEST = 8, 7
_LONGEST_REASON = 1024


class Side(Protocol):
    """One end of a VNC connection. ``read_exactly`` raises EOFError if the stream ends before ``count`` bytes."""

    async def read_exactly(self, count: int) -> bytes: ...
    async def write(self, data: bytes) -> None: ...


def is_greeting(said: bytes) -> bool:
    """Return whether the first bytes of a stream are a greeting of the VNC protocol."""
    return _A_VERSION.match(said) is not None


async def enter(host: Side) -> None:
    """Do the handshake with a hypervisor. Raises: Unavailable, if it offers no VNC console without authentication."""
    version = _A_VERSION.fullmatch(await host.read_exactly(len(_VERSION)))
    if version is None:
        raise Unavailable("The console is not a VNC console.")
    if (int(version[1]), int(version[2])) < (3, _NEWEST):
        raise Unavailable("The hypervisor has a version of the VNC protocol that is older than 3.8.")
    await host.write(_VERSION)
    (count,) = await host.read_exactly(1)
    if not count:
        raise Unavailable(f"The hypervisor refuses its console: {await _reason(host)}")
    if _NONE not in await host.read_exactly(count):
        raise Unavailable("The hypervisor requires a password or certificate for its console, which is not supported.")
    await host.write(bytes([_NONE]))
    if struct.unpack(">I", await host.read_exactly(4))[0]:
        raise Unavailable(f"The hypervisor refuses its console: {await _reason(host)}")


async def welcome(viewer: Side) -> None:
    """Do the handshake with a viewer. Raises: Unavailable, if the viewer does not support the VNC protocol."""
    await viewer.write(_VERSION)
    version = _A_VERSION.fullmatch(await viewer.read_exactly(len(_VERSION)))
    if version is None or int(version[1]) != 3:
        raise Unavailable("The client does not support the VNC protocol.")
    minor = int(version[2])
    if minor < _OLDEST:  # in version 3.3 the server selects the security type
        await viewer.write(struct.pack(">I", _NONE))
        return
    await viewer.write(bytes([1, _NONE]))
    if await viewer.read_exactly(1) != bytes([_NONE]):
        raise Unavailable("The client did not choose the security type None, the only one offered.")
    if minor >= _NEWEST:
        await viewer.write(bytes(4))


async def _reason(host: Side) -> str:
    (length,) = struct.unpack(">I", await host.read_exactly(4))
    said = await host.read_exactly(min(length, _LONGEST_REASON))
    return "".join(letter if letter.isprintable() else "?" for letter in said.decode(errors="replace"))
