# SPDX-License-Identifier: Apache-2.0
"""Body of POST /servers."""

from msgspec import UNSET, Struct, UnsetType

from kilonova.api.typed_body import Flag, Whole


class SecurityGroup(Struct, frozen=True):
    """A requested security group."""

    name: str | None = None


class BlockDevice(Struct, frozen=True, kw_only=True):
    """An item of ``block_device_mapping_v2``. ``boot_index``: UNSET if the body does not have the field."""

    source_type: str
    destination_type: str = "local"
    boot_index: Whole | str | UnsetType | None = UNSET
    uuid: str | None = None
    volume_size: Whole | str | None = None
    guest_format: str | None = None
    device_type: str | None = None
    disk_bus: str | None = None
    image_id: str | None = None
    snapshot_id: str | None = None
    volume_id: str | None = None
    volume_type: str | None = None
    no_device: object = None
    tag: str | None = None


class NewServer(
    Struct,
    frozen=True,
    kw_only=True,
    rename={
        "flavor_ref": "flavorRef",
        "image_ref": "imageRef",
        "admin_pass": "adminPass",
        "access_ip_v4": "accessIPv4",
        "access_ip_v6": "accessIPv6",
        "disk_config": "OS-DCF:diskConfig",
    },
):
    """The requested server or servers.

    ``min_count`` and ``max_count`` may be strings of digits. ``networks``: a list, ``auto`` or ``none``.
    ``trusted_image_certificates``: UNSET if the body does not have the field. UNSET and None both mean no certificates.
    """

    name: str
    flavor_ref: Whole | str
    image_ref: str | None = None
    admin_pass: str | None = None
    metadata: dict[str, str] = {}
    networks: tuple[dict[str, str | None], ...] | str = ()
    disk_config: str = "MANUAL"
    access_ip_v4: str | None = None
    access_ip_v6: str | None = None
    personality: tuple[object, ...] = ()
    availability_zone: str | None = None
    block_device_mapping: tuple[object, ...] = ()
    block_device_mapping_v2: tuple[BlockDevice, ...] = ()
    config_drive: Flag = False
    key_name: str | None = None
    min_count: Whole | str | None = None
    max_count: Whole | str | None = None
    return_reservation_id: Flag = False
    security_groups: tuple[SecurityGroup, ...] = ()
    user_data: str | None = None
    description: str | None = None
    tags: tuple[str, ...] = ()
    trusted_image_certificates: tuple[str, ...] | UnsetType | None = UNSET
    host: str | None = None
    hypervisor_hostname: str | None = None
    hostname: str | None = None


class CreateServers(
    Struct,
    frozen=True,
    kw_only=True,
    rename={"hints": "os:scheduler_hints", "extension_hints": "OS-SCH-HNT:scheduler_hints"},
):
    """The whole body. ``extension_hints``: scheduler hints under an older key, which are used if ``hints`` is empty."""

    server: NewServer
    hints: dict[str, object] = {}
    extension_hints: dict[str, object] = {}
