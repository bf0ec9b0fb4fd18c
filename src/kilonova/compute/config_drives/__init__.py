# SPDX-License-Identifier: Apache-2.0
"""Config drives: small disks with metadata files for a guest. In: a GuestSpec. Out: a disk image.

``files.py`` makes the files and their content, ``iso9660.py`` makes a disk image of them. This package uses no
hypervisor: drivers attach the disk.
"""

from kilonova.compute.config_drives.files import files_of
from kilonova.compute.config_drives.iso9660 import iso9660_of

__all__ = ["files_of", "iso9660_of"]
