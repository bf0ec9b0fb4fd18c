# SPDX-License-Identifier: Apache-2.0
"""Standard attributes of the Image API v2. Every other key of an image is a property."""

_STANDARD = frozenset(
    {
        "id", "name", "status", "visibility", "protected", "checksum", "owner", "size", "virtual_size", "min_ram",
        "min_disk", "created_at", "updated_at", "file", "schema", "self", "tags", "container_format", "disk_format",
        "locations", "os_hidden", "os_hash_algo", "os_hash_value", "stores", "owner_specified.openstack.md5",
        "owner_specified.openstack.sha256", "owner_specified.openstack.object",
    }
)  # fmt: skip


def is_standard(name: str) -> bool:
    """Tell whether a name is a standard attribute of the Image API. Such a name cannot be a property."""
    return name in _STANDARD
