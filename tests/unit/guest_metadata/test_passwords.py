# SPDX-License-Identifier: Apache-2.0
import io

import pytest

from kilonova.guest_metadata import files_of
from kilonova.guest_metadata.passwords import LARGEST, is_password, is_valid, password_files, read_password
from kilonova.guest_metadata.served import find
from support.drives import DRIVE, GUEST


def test_a_password_is_a_file_of_each_version_that_has_it() -> None:
    files = {**files_of(GUEST, DRIVE), **password_files("abc=")}
    assert find(files, "/openstack/latest/password") == b"abc="
    assert find(files, "/openstack/2013-04-04/password") == b"abc="
    assert find(files, "/openstack/2012-08-10/password") is None
    assert b"password" in (find(files, "/openstack/latest") or b"").split()
    assert b"password" not in (find(files, "/openstack/2012-08-10") or b"").split()
    assert find(password_files(None), "/openstack/latest/password") == b""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/openstack/latest/password", True),
        ("//openstack/2025-04-04/password/", True),
        ("/openstack/2012-08-10/password", False),
        ("/openstack/latest/password/x", False),
        ("/latest/password", False),
        ("/", False),
    ],
)
def test_where_passwords_are_posted(path: str, expected: bool) -> None:
    assert is_password(path) is expected


@pytest.mark.parametrize(
    ("body", "password"),
    [
        (b"abc=", "abc="),
        (b"x" * LARGEST, "x" * LARGEST),
        (b"x" * (LARGEST + 1), ""),
        (b"\xff", ""),
        (b"", ""),
    ],
)
def test_a_password_in_a_body(body: bytes, password: str) -> None:
    assert read_password(io.BytesIO(body)) == password


def test_which_passwords_can_be_stored() -> None:
    assert is_valid("YWJj+/=")
    for bad in ("", "x" * (LARGEST + 1), "a\nb", "a\x00b", "\u00fc"):
        assert not is_valid(bad), bad
