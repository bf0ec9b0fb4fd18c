# SPDX-License-Identifier: Apache-2.0
"""A disk image of 4 KiB that says what it is and halts: enough to see a server start, small enough to make here."""

import struct

NAME = "tiny"
DISK_FORMAT = "raw"
SIZE_BYTES = 4096

_SECTOR_BYTES = 512
_PARTITION_TABLE = 446
_MESSAGE = b"Kilonova test image: nothing more to start.\r\n\0"

# A boot sector for a PC: print _MESSAGE through the BIOS, then halt.
_CODE = bytes.fromhex(
    "31c0"  # xor  ax, ax
    "8ed8"  # mov  ds, ax
    "be157c"  # mov  si, 0x7c15       the message, right after this code
    "ac"  # lodsb                  next character
    "84c0"  # test al, al
    "7406"  # jz   halt
    "b40e"  # mov  ah, 0x0e           teletype output
    "cd10"  # int  0x10
    "ebf5"  # jmp  next character
    "f4"  # hlt                    halt
    "ebfd"  # jmp  halt
)


def tiny_image() -> bytes:
    """Build the image: a boot sector with one partition, as image services expect of a disk, then zeros."""
    sectors = SIZE_BYTES // _SECTOR_BYTES
    partition = struct.pack("<B3xB3xII", 0x80, 0x83, 1, sectors - 1)  # active, Linux, all but the boot sector
    boot = (_CODE + _MESSAGE).ljust(_PARTITION_TABLE, b"\0") + partition
    return (boot.ljust(_SECTOR_BYTES - 2, b"\0") + b"\x55\xaa").ljust(SIZE_BYTES, b"\0")
