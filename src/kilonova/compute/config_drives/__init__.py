# SPDX-License-Identifier: Apache-2.0
"""Config drives: what a guest is told of itself, as files of a small disk. In: a GuestSpec. Out: a disk image.

``files.py`` says which files there are and what is in them, ``iso9660.py`` makes a disk of them. Nothing here talks to
a hypervisor: drivers attach the disk.
"""

from kilonova.compute.config_drives.files import files_of
from kilonova.compute.config_drives.iso9660 import iso9660_of

__all__ = ["files_of", "iso9660_of"]
