# SPDX-License-Identifier: Apache-2.0
"""Paths of the metadata service: OpenStack's files, and EC2's tree of texts."""

from dataclasses import replace

import orjson
import pytest

from kilonova.guest_metadata import files_of
from kilonova.guest_metadata.served import find
from support.drives import DRIVE, GUEST

FILES = files_of(GUEST, DRIVE)


def text(path: str) -> str:
    found = find(FILES, path)
    assert found is not None
    return found.decode()


def test_folders_are_lists_of_names() -> None:
    assert text("/").splitlines()[0] == "openstack"
    assert text("/latest/") == text("/2009-04-04") == "meta-data/\nuser-data"
    assert text("/openstack").splitlines()[-1] == "latest"
    assert set(text("/openstack/latest/").splitlines()) >= {"meta_data.json", "network_data.json", "user_data"}
    assert {"instance-id", "placement/", "public-keys/"} <= set(text("/latest/meta-data/").splitlines())


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("instance-id", "i-000000ff"),
        ("hostname", "web.example.org"),
        ("placement", "availability-zone"),
        ("placement/availability-zone", "east"),
        ("block-device-mapping/root", "/dev/vda"),
        ("ami-launch-index", "2"),
        ("security-groups", ""),
        ("public-keys/", "0=mine"),
        ("public-keys/0/", "openssh-key"),
        ("public-keys/0/openssh-key", "ssh-ed25519 AAAA me"),
    ],
)
def test_texts_of_ec2(path: str, content: str) -> None:
    assert text(f"/latest/meta-data/{path}") == content


def test_files_of_openstack() -> None:
    assert orjson.loads(text("/openstack/latest/meta_data.json"))["uuid"] == GUEST.uuid
    assert find(FILES, "/openstack/2013-10-17/user_data") == find(FILES, "/latest/user-data") == b"#!/bin/sh\x00\xff"


@pytest.mark.parametrize(
    "path",
    [
        *("/ec2/latest/meta-data.json", "/other", "/latest/meta-data/none", "/latest/meta-data/hostname/x"),
        *("/openstack/latest/none", "/openstack/../ec2", "/latest/user-data/x", "/latest/dynamic"),
    ],
)
def test_what_is_not_there(path: str) -> None:
    assert find(FILES, path) is None


def test_a_guest_without_key_and_user_data() -> None:
    files = files_of(replace(GUEST, user_data=None), replace(DRIVE, key=None))
    assert find(files, "/latest/") == b"meta-data/"
    for path in ("/latest/user-data", "/latest/meta-data/public-keys/", "/openstack/latest/user_data"):
        assert find(files, path) is None
