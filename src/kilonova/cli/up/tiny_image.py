# SPDX-License-Identifier: Apache-2.0
"""A bootable disk image of 512 KiB, from which test servers can be created without downloading an image.

A PC with a BIOS boots the image from any disk and from a CD. The guest counts its boots, and stores the count on its
disk. At each boot it writes a line such as ``Kilonova test image: boot 2, disks 1`` to the first serial port and to the
screen. The power button and the key ``q`` power the guest off; the key ``r`` resets it. On a machine of type pc it
releases PCI devices that are detached from it. The guest needs very little memory and processor time.
"""

import struct

NAME = "tiny"
DISK_FORMAT = "raw"
SIZE_BYTES = 512 * 1024  # SeaBIOS boots no disk of less than one cylinder, 504 KiB

_SECTOR_BYTES = 512
_OBEYS_ACPI = 445
_PARTITION_TABLE = 446

#: Machine code, assembled from ``tiny_image.S``; a test in tests/guests compares the two.
_CODE = bytes.fromhex(
    "fa31c08ed88ec08ed0bc007cfbfcea137c00008816177db80102e8b2007308c706007e0000eb0aff06007eb80103e89e0080"
    "3ebd7d007407ba0206b80001efbe187de8b100be2e7de8ab00a1007ee88d00be347de89f000fb6067504e87f00be587de891"
    "00f4bafd03eca8017406baf803eceb0ab401cd16740c30e4cd163c7174323c727443803ebd7d0074d8ba04ae66ed66407409"
    "66487405ba08ae66efba0006edf6c40174bdbe187de84800be3d7de84200be187de83c00be4c7de83600ba0406b80020efeb"
    "9cb0fee664eb96bb007eb902008a16177d30f6cd13c3bb0a0031c931d2f7f3524185c075f6580430e80e00e2f8c3ac84c074"
    "05e80300ebf6c350bb0700b40ecd10bafd03eca82074fb58baf803eec3004b696c6f6e6f7661207465737420696d6167653a"
    "2000626f6f7420002c206469736b732000706f77657220627574746f6e0d0a00706f776572696e67206f66660d0a00"
)

# A bootable CD has 16 reserved sectors, then a descriptor, then a boot record, which contains the number of the boot
# catalogue's sector. The catalogue names the sectors that the BIOS loads: here the boot sector of the disk. (El Torito,
# version 1.0)
_CD_SECTOR_BYTES = 2048
_CD_BOOT_RECORD = 17
_CD_CATALOGUE = 18
_CD_LOADS_SECTORS = 4  # number of 512-byte sectors that the BIOS loads from the CD


def tiny_image(*, obeys_acpi: bool = True) -> bytes:
    """Build the image. The image has the boot sector of a disk with one partition, and also a CD's boot catalogue.

    ``obeys_acpi``: whether the guest reacts to the power button.
    """
    image = bytearray(SIZE_BYTES)
    image[: len(_CODE)] = _CODE
    image[_OBEYS_ACPI] = obeys_acpi
    sectors = SIZE_BYTES // _SECTOR_BYTES
    # active partition of type Linux, from sector 1 to the last sector
    partition = struct.pack("<B3xB3xII", 0x80, 0x83, 1, sectors - 1)
    image[_PARTITION_TABLE : _PARTITION_TABLE + len(partition)] = partition
    image[_SECTOR_BYTES - 2 : _SECTOR_BYTES] = b"\x55\xaa"
    record = _CD_BOOT_RECORD * _CD_SECTOR_BYTES
    image[record : record + 30] = b"\0CD001\1EL TORITO SPECIFICATION"
    struct.pack_into("<I", image, record + 0x47, _CD_CATALOGUE)
    catalogue = _CD_CATALOGUE * _CD_SECTOR_BYTES
    # El Torito entry for a PC; the sum of its 16-bit words must be 0
    validation = struct.pack("<BB2x24sHBB", 1, 0, b"Kilonova", 0, 0x55, 0xAA)
    checksum = -sum(struct.unpack("<16H", validation)) % 0x10000
    struct.pack_into("<32s", image, catalogue, validation)
    struct.pack_into("<H", image, catalogue + 28, checksum)
    struct.pack_into("<BBHBxHI", image, catalogue + 32, 0x88, 0, 0, 0, _CD_LOADS_SECTORS, 0)  # no emulation
    return bytes(image)
