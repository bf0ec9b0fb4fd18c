# SPDX-License-Identifier: Apache-2.0
"""A test guest of about 150 bytes for x86: firmware that enters each CPU mode and then exits the emulator.

The guest starts in real mode, continues in protected mode with the floating-point unit, then in long mode with paging
and SSE, and reports success through the debug port ``isa-debug-exit``. If the hypervisor cannot run one of these modes,
the guest never exits.
"""

EXIT_PORT = 0xF4
#: Exit status of QEMU on success: 2n + 1, where n is the value that the guest writes to the debug port.
EXIT_CODE = 2 * 0x2A + 1

_SIZE = 64 * 1024  # the last segment below 1 MiB, which contains the CPU's reset vector
_RESET_VECTOR = _SIZE - 16
_CODE = (
    # Real mode, at F000:0000.
    "fa",  # cli
    "2e 66 0f 01 16 b8 00",  # lgdt cs:[00b8]
    "0f 20 c0 / 0c 01 / 0f 22 c0",  # cr0 |= protection
    "66 ea 18 00 0f 00 08 00",  # jmp 08:000f0018
    # Protected mode.
    "66 b8 10 00 / 8e d8 / 8e c0 / 8e d0",  # ds = es = ss = 10
    "db e3",  # fninit
    "bf 00 10 00 00 / 31 c0 / b9 00 0c 00 00 / f3 ab",  # clear three page tables, at 1000, 2000 and 3000
    "c7 05 00 10 00 00 03 20 00 00",  # page map level 4: entry 0 → the table at 2000
    "c7 05 00 20 00 00 03 30 00 00",  # page directory pointers: entry 0 → the table at 3000
    "c7 05 00 30 00 00 83 00 00 00",  # page directory: entry 0 → the first 2 MiB of memory
    "b8 00 10 00 00 / 0f 22 d8",  # cr3 = 1000
    "0f 20 e0 / 0d 20 06 00 00 / 0f 22 e0",  # cr4 |= physical address extension, SSE
    "b9 80 00 00 c0 / 0f 32 / 0d 00 01 00 00 / 0f 30",  # efer |= long mode
    "0f 20 c0 / 0d 00 00 00 80 / 0f 22 c0",  # cr0 |= paging
    "ea 83 00 0f 00 18 00",  # jmp 18:000f0083
    # Long mode.
    "31 c0 / 0f a2",  # cpuid 0
    "66 0f ef c0",  # pxor xmm0, xmm0
    "b0 2a / e6 f4",  # out f4, 2a
    "f4 / eb fd",  # hlt, for ever
    "90 90 90 90 90 90",
    # At 0098, the segment descriptors: 00 unused, 08 32-bit code, 10 data, 18 64-bit code.
    "00 00 00 00 00 00 00 00",
    "ff ff 00 00 00 9b cf 00",
    "ff ff 00 00 00 93 cf 00",
    "ff ff 00 00 00 9b af 00",
    "1f 00 / 98 00 0f 00",  # at 00b8, the operand of lgdt: limit and address of the descriptor table
)


def firmware() -> bytes:
    """Return the guest as a firmware image for the emulator."""
    code = bytes.fromhex("".join(_CODE).replace("/", ""))
    begin = bytes.fromhex("ea 00 00 00 f0")  # jmp f000:0000
    return code.ljust(_RESET_VECTOR, b"\xf4") + begin.ljust(_SIZE - _RESET_VECTOR, b"\xf4")
