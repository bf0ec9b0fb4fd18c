# SPDX-License-Identifier: Apache-2.0
"""The names that the Image API v2 keeps for itself: every other key of an image is one of its properties."""

_STANDARD = frozenset(
    {
        "id", "name", "status", "visibility", "protected", "checksum", "owner", "size", "virtual_size", "min_ram",
        "min_disk", "created_at", "updated_at", "file", "schema", "self", "tags", "container_format", "disk_format",
        "locations", "os_hidden", "os_hash_algo", "os_hash_value", "stores", "owner_specified.openstack.md5",
        "owner_specified.openstack.sha256", "owner_specified.openstack.object",
    }
)  # fmt: skip


def is_standard(name: str) -> bool:
    """Tell whether a name is one of the Image API's own, so that no property of an image can have it."""
    return name in _STANDARD
