# SPDX-License-Identifier: Apache-2.0
"""Metadata that a guest reads about itself. In: a GuestSpec with the contents of its config drive. Out: files by path.

Hosts write the files to config drives, control processes serve them (``served.py``). No I/O, except random numbers.
"""

from kilonova.guest_metadata.files import files_of

__all__ = ["files_of"]
