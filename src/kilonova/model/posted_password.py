# SPDX-License-Identifier: Apache-2.0
"""Result of posting a password to the metadata service."""

from enum import StrEnum


class PostResult(StrEnum):
    """What became of a password that a guest posted.

    ``ABSENT``: there is no such guest. ``PRESENT``: the server has a password already. ``INVALID``: the password is
    empty, too long, or not printable ASCII text.
    """

    STORED = "stored"
    ABSENT = "absent"
    PRESENT = "present"
    INVALID = "invalid"
