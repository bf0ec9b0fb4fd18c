# SPDX-License-Identifier: Apache-2.0
"""The metadata of a guest as the metadata service serves them: ``/openstack/…`` as files, EC2's as a tree of texts.

A folder is served as a list of names, one on each line. The names of EC2's folders end with a slash.
Source: OpenStack's metadata reference, EC2's instance metadata.
"""

from collections.abc import Mapping
from typing import Any

import orjson

#: Versions of EC2's layout. All have the same contents here.
EC2_VERSIONS = (
    "1.0", "2007-01-19", "2007-03-01", "2007-08-29", "2007-10-10", "2007-12-15", "2008-02-01", "2008-09-01",
    "2009-04-04", "latest",
)  # fmt: skip
OPENSTACK = "openstack"
#: First components of the paths that the metadata service serves.
ROOTS = (OPENSTACK, *EC2_VERSIONS)
_EC2 = "ec2/latest"


def find(files: Mapping[str, bytes], path: str) -> bytes | None:
    """Return the content at a path, or None if there is none. ``files``: as :func:`files_of` returns them."""
    parts = [part for part in path.split("/") if part]
    if not parts:
        return _list(ROOTS)
    if parts[0] == OPENSTACK:
        return _openstack(files, "/".join(parts))
    if parts[0] not in EC2_VERSIONS:
        return None
    user_data = files.get(f"{_EC2}/user-data")
    match parts[1:]:
        case []:
            return _list(("meta-data/", *(("user-data",) if user_data is not None else ())))
        case ["user-data"]:
            return user_data
        case ["meta-data", "public-keys"]:
            keys = orjson.loads(files[f"{OPENSTACK}/latest/meta_data.json"]).get("keys")
            return None if not keys else _list(f"{number}={key['name']}" for number, key in enumerate(keys))
        case ["meta-data", *below]:
            return _ec2(orjson.loads(files[f"{_EC2}/meta-data.json"]), below)
    return None


def content_type(path: str) -> str:
    """Return the media type of the content at a path."""
    return "application/json" if path.endswith(".json") else "text/plain"


def _openstack(files: Mapping[str, bytes], path: str) -> bytes | None:
    if path in files:
        return files[path]
    names = {file.removeprefix(f"{path}/").partition("/")[0]: None for file in files if file.startswith(f"{path}/")}
    return _list(names) if names else None


def _ec2(found: Any, below: list[str]) -> bytes | None:
    """Return a text or folder of EC2's metadata."""
    for part in below:
        if not isinstance(found, Mapping) or part not in found:
            return None
        found = found[part]
    if isinstance(found, Mapping):
        return _list(f"{name}/" if isinstance(value, Mapping) else name for name, value in found.items())
    if isinstance(found, list):
        return _list(found)
    return str(found).encode()


def _list(names: Any) -> bytes:
    return "\n".join(map(str, names)).encode()
