# SPDX-License-Identifier: Apache-2.0
"""Body of the rebuild of a server."""

from msgspec import UNSET, Struct, UnsetType

from kilonova.api.typed_body import Flag

#: Fields that have a column of the same name in the table of instances.
_COLUMNS = ("name", "metadata", "description", "hostname", "key_name", "disk_config")


class Rebuild(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "image_ref": "imageRef",
        "admin_pass": "adminPass",
        "access_ip_v4": "accessIPv4",
        "access_ip_v6": "accessIPv6",
        "disk_config": "OS-DCF:diskConfig",
    },
):
    """The new image, and the fields of the server to change.

    UNSET: the server's field stays unchanged. None removes the field's value, but leaves an access address unchanged.
    """

    image_ref: str
    admin_pass: str | None = None
    name: str | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    preserve_ephemeral: Flag = False
    disk_config: str | UnsetType = UNSET
    access_ip_v4: str | None = None
    access_ip_v6: str | None = None
    personality: tuple[object, ...] = ()
    description: str | UnsetType | None = UNSET
    key_name: str | UnsetType | None = UNSET
    user_data: str | UnsetType | None = UNSET
    trusted_image_certificates: tuple[str, ...] | UnsetType | None = UNSET
    hostname: str | UnsetType = UNSET

    def columns(self) -> dict[str, object]:
        """Return database column → new value, for the fields that the body contains."""
        return {column: value for column in _COLUMNS if (value := getattr(self, column)) is not UNSET}
