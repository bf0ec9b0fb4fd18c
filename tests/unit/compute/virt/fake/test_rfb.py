# SPDX-License-Identifier: Apache-2.0
"""The VNC server of a simulated guest, for viewers of every protocol version."""

import struct

import pytest

from kilonova.compute.virt.fake.rfb import black_screen
from support.console_ends import connected, read

LOOPBACK = "127.0.0.1"


@pytest.mark.parametrize("version", [3, 7, 8])
def test_a_viewer_is_shown_a_screen(version: int) -> None:
    with connected(black_screen("guest \u00fc")) as viewer:
        assert read(viewer, 12) == b"RFB 003.008\n"
        viewer.sendall(b"RFB 003.00%d\n" % version)
        if version == 3:
            assert read(viewer, 4) == struct.pack(">I", 1)
        else:
            assert read(viewer, 2) == bytes([1, 1])
            viewer.sendall(bytes([1]))
        if version == 8:
            assert read(viewer, 4) == bytes(4)
        viewer.sendall(bytes([1]))
        width, height = struct.unpack(">HH", read(viewer, 4))
        read(viewer, 16)
        (length,) = struct.unpack(">I", read(viewer, 4))
        assert read(viewer, length).decode() == "guest \u00fc"
        viewer.sendall(struct.pack(">BxHii", 2, 2, 0, 1))
        viewer.sendall(struct.pack(">BB2xI", 4, 1, 13) + struct.pack(">BBHH", 5, 0, 1, 1))
        viewer.sendall(struct.pack(">B3xI", 6, 5) + b"words")
        viewer.sendall(struct.pack(">BBHHHH", 3, 0, width - 2, height - 3, 100, 100))
        assert read(viewer, 4) == struct.pack(">BxH", 0, 1)
        assert struct.unpack(">HHHHi", read(viewer, 12)) == (width - 2, height - 3, 2, 3, 0)
        assert read(viewer, 2 * 3 * 4) == bytes(24)
        viewer.sendall(struct.pack(">B3xBBBBHHHBBB3x", 0, 16, 16, 0, 1, 31, 63, 31, 11, 5, 0))
        viewer.sendall(struct.pack(">BBHHHH", 3, 1, 0, 0, width, height))  # nothing is new
        viewer.sendall(struct.pack(">BBHHHH", 3, 0, width + 1, 0, 5, 1) + struct.pack(">BBHHHH", 3, 0, 0, 0, 5, 1))
        assert struct.unpack(">4xHHHHi", read(viewer, 16))[2:4] == (0, 1)
        read(viewer, 16)
        assert read(viewer, 10) == bytes(10)
        viewer.sendall(bytes([99]))
        assert read(viewer, 1) == b""
