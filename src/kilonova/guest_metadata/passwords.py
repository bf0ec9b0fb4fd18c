# SPDX-License-Identifier: Apache-2.0
"""The password that a guest generates, encrypts with its server's public key, and posts to the metadata service.

Source: Nova's metadata service. The password is below the versions of OpenStack's layout since 2013-04-04, in requests
to read it and in the one to store it.
"""

from collections.abc import Mapping
from typing import Any

from kilonova.guest_metadata.files import VERSIONS
from kilonova.guest_metadata.served import OPENSTACK
from kilonova.model.posted_password import PostResult

#: Largest password in bytes, as in Nova.
LARGEST = 1020
#: HTTP status of the answer to a guest that posts a password.
STATUSES: Mapping[PostResult, int] = {
    PostResult.STORED: 200,
    PostResult.ABSENT: 404,
    PostResult.PRESENT: 409,
    PostResult.INVALID: 400,
}
_SINCE = "2013-04-04"
_PATHS = tuple(f"{OPENSTACK}/{version}/password" for version in (*VERSIONS, "latest") if version >= _SINCE)


def password_files(password: str | None) -> Mapping[str, bytes]:
    """Return the files with a server's password: path → content. Without a password they are empty."""
    return dict.fromkeys(_PATHS, (password or "").encode())


def is_password(path: str) -> bool:
    """Return whether guests post passwords to a path."""
    return "/".join(part for part in path.split("/") if part) in _PATHS


def read_password(stream: Any) -> str:
    """Read a password from the body of a request; "" if it is too long or not ASCII text."""
    body: bytes = stream.read(LARGEST + 1)
    return body.decode("ascii") if len(body) <= LARGEST and body.isascii() else ""


def is_valid(password: str) -> bool:
    """Return whether a password that a guest posts can be stored."""
    return 0 < len(password.encode()) <= LARGEST and password.isascii() and password.isprintable()
