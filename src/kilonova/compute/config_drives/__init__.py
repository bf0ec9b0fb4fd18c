# SPDX-License-Identifier: Apache-2.0
"""Config drives: small disks with the metadata of a guest. In: files by path. Out: a disk image.

This package uses no hypervisor: drivers attach the disk.
"""

from kilonova.compute.config_drives.iso9660 import iso9660_of

__all__ = ["iso9660_of"]
