# SPDX-License-Identifier: Apache-2.0
"""A VNC server that shows a black screen with the name of the guest as its title. Every VNC viewer can connect to it.

Source: RFC 6143 (The Remote Framebuffer Protocol), versions 3.3, 3.7 and 3.8. The server requires no authentication,
since the console proxy checks the token.
"""

import struct
from asyncio import StreamReader, StreamWriter

from kilonova.compute.virt.fake.console_ends import Talk

_VERSION = b"RFB 003.008\n"
_VERSIONS = {b"RFB 003.007\n": 7, _VERSION: 8}
_NO_SECURITY = 1
_WIDTH, _HEIGHT = 320, 200
_DEPTH = 32
#: Pixel format: bits per pixel, depth, big-endian, true colour, three maxima, three shifts.
_PIXELS = struct.pack(">BBBBHHHBBB3x", _DEPTH, 24, 0, 1, 255, 255, 255, 16, 8, 0)
_SET_PIXELS, _SET_ENCODINGS, _ASK_FOR_UPDATE, _KEY, _POINTER, _CUT = 0, 2, 3, 4, 5, 6
#: Length of each client message after its first byte; for a message of variable length, the length of its fixed part.
_LENGTHS = {_SET_PIXELS: 19, _SET_ENCODINGS: 3, _ASK_FOR_UPDATE: 9, _KEY: 7, _POINTER: 5, _CUT: 7}
_LONGEST_CUT = 1 << 20


def black_screen(name: str) -> Talk:
    """Return the VNC handler of a guest named ``name``."""

    async def talk(reader: StreamReader, writer: StreamWriter) -> None:
        await _shake_hands(reader, writer)
        await reader.readexactly(1)  # the client's "shared" flag is ignored
        title = name.encode()
        writer.write(struct.pack(">HH", _WIDTH, _HEIGHT) + _PIXELS + struct.pack(">I", len(title)) + title)
        depth = _DEPTH
        while True:
            await writer.drain()
            kind = (await reader.readexactly(1))[0]
            if kind not in _LENGTHS:
                return
            said = await reader.readexactly(_LENGTHS[kind])
            if kind == _SET_PIXELS:
                depth = said[3]
            elif kind == _SET_ENCODINGS:
                await _skip(reader, 4 * struct.unpack(">xH", said)[0])
            elif kind == _CUT:
                await _skip(reader, min(struct.unpack(">3xI", said)[0], _LONGEST_CUT))
            # never answer an incremental request: the screen does not change
            elif kind == _ASK_FOR_UPDATE and not said[0]:
                x, y, width, height = struct.unpack(">xHHHH", said)
                writer.write(_update(x, y, width, height, depth))

    return talk


async def _shake_hands(reader: StreamReader, writer: StreamWriter) -> None:
    writer.write(_VERSION)
    version = _VERSIONS.get(await reader.readexactly(len(_VERSION)), 3)
    if version == 3:
        writer.write(struct.pack(">I", _NO_SECURITY))
        return
    writer.write(bytes([1, _NO_SECURITY]))
    if await reader.readexactly(1) != bytes([_NO_SECURITY]):
        raise EOFError
    if version == 8:
        writer.write(struct.pack(">I", 0))


def _update(x: int, y: int, width: int, height: int, depth: int) -> bytes:
    """Return an update message with a part of the screen as raw pixels, clipped to the screen."""
    width, height = max(0, min(width, _WIDTH - x)), max(0, min(height, _HEIGHT - y))
    head = struct.pack(">BxH", 0, 1) + struct.pack(">HHHHi", x, y, width, height, 0)
    return head + bytes(width * height * depth // 8)


async def _skip(reader: StreamReader, count: int) -> None:
    while count:
        count -= len(await reader.readexactly(min(count, 4096)))
