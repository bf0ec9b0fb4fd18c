# SPDX-License-Identifier: Apache-2.0
"""Schemas of servers: create, update, list."""

from typing import Any

from kilonova.api.compute.schemas.server_metadata import METADATA
from kilonova.api.compute.schemas.server_tags import TAG, TAGS
from kilonova.api.schemas.types import BOOLEAN, NAME, POSITIVE_INTEGER, UUID, JSONDict, body
from kilonova.api.validation import Schemas

_UUIDS: JSONDict = {"oneOf": [UUID, {"type": "array", "items": UUID}]}
HOSTNAME: JSONDict = {
    "type": "string",
    "minLength": 2,
    "maxLength": 63,
    "pattern": r"^[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9]$",
}
#: Hostname since 2.94: may consist of a single character, and may have underscores, hyphens and dots at any position.
FQDN: JSONDict = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9._-]*$"}
DESCRIPTION: JSONDict = {
    "type": ["string", "null"],
    "maxLength": 255,
    "pattern": r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f]*$",
}
_NETWORK: JSONDict = {
    "uuid": {"type": "string"},
    "port": {"type": ["string", "null"], "format": "uuid"},
    "fixed_ip": {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
}


def _list_of(properties: JSONDict) -> JSONDict:
    return {"type": "array", "items": {"type": "object", "properties": properties, "additionalProperties": False}}


def _list_or_choice(properties: JSONDict) -> JSONDict:
    """Return the schema of ``networks`` since 2.37."""
    return {"oneOf": [_list_of({**properties, "uuid": UUID}), {"type": "string", "enum": ["none", "auto"]}]}


_BLOCK_DEVICE: JSONDict = {
    "type": "object",
    "properties": {
        "uuid": {"type": ["string", "null"]},
        "boot_index": {"type": ["integer", "string", "null"]},
        "source_type": {"enum": ["volume", "image", "snapshot", "blank"]},
        "destination_type": {"enum": ["local", "volume"]},
        "delete_on_termination": BOOLEAN,
        "volume_size": {"type": ["integer", "string", "null"]},
        "guest_format": {"type": ["string", "null"]},
        "device_name": {"type": ["string", "null"]},
        "device_type": {"type": ["string", "null"]},
        "disk_bus": {"type": ["string", "null"]},
        "volume_id": {"type": ["string", "null"]},
        "image_id": {"type": ["string", "null"]},
        "snapshot_id": {"type": ["string", "null"]},
        "no_device": {},
        "tag": {"type": "string"},
        "volume_type": {"type": ["string", "null"]},
    },
    "required": ["source_type"],
    "additionalProperties": False,
}

_SERVER: JSONDict = {
    "name": NAME,
    "imageRef": {"oneOf": [{"type": "string", "format": "uuid"}, {"type": "string", "maxLength": 0}]},
    "flavorRef": {"type": ["string", "integer"], "minLength": 1},
    "adminPass": {"type": "string"},
    "metadata": METADATA,
    "networks": _list_of(_NETWORK),
    "OS-DCF:diskConfig": {"type": "string", "enum": ["AUTO", "MANUAL"]},
    "accessIPv4": {"type": "string", "format": "ipv4"},
    "accessIPv6": {"type": "string", "format": "ipv6"},
    "personality": {"type": "array", "items": {"type": "object"}},
    "availability_zone": {**NAME, "type": ["string", "null"]},
    "block_device_mapping": {"type": "array", "items": {"type": "object"}},
    "block_device_mapping_v2": {"type": "array", "items": _BLOCK_DEVICE},
    "config_drive": {"anyOf": [BOOLEAN, {"type": "string", "maxLength": 0}]},
    "key_name": NAME,
    "min_count": POSITIVE_INTEGER,
    "max_count": POSITIVE_INTEGER,
    "return_reservation_id": BOOLEAN,
    "security_groups": {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 255}},
            "additionalProperties": False,
        },
    },
    "user_data": {"type": ["string", "null"], "maxLength": 65535},
}

_HINTS: JSONDict = {
    "type": "object",
    "properties": {
        "group": _UUIDS,
        "different_host": {"oneOf": [UUID, {"type": "array", "items": UUID}]},
        "same_host": {"oneOf": [UUID, {"type": "array", "items": UUID}]},
        "query": {"type": ["string", "object"]},
        "target_cell": {"type": "string", "minLength": 1, "maxLength": 255},
        "different_cell": {"type": ["string", "array"]},
        "build_near_host_ip": {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
        "cidr": {"type": "string", "pattern": r"^/[0-9a-f.:]+$"},
    },
    "additionalProperties": True,
}


def _create(
    *, without: tuple[str, ...] = (), required: tuple[str, ...] = ("name", "flavorRef"), **more: Any
) -> JSONDict:
    properties = {name: schema for name, schema in {**_SERVER, **more}.items() if name not in without}
    server = {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
    return {
        "type": "object",
        "properties": {"server": server, "os:scheduler_hints": _HINTS, "OS-SCH-HNT:scheduler_hints": _HINTS},
        "required": ["server"],
        "additionalProperties": False,
    }


CERTIFICATES: JSONDict = {
    "anyOf": [
        {"type": "null"},
        {
            "type": "array",
            "minItems": 1,
            "maxItems": 50,
            "uniqueItems": True,
            "items": {"type": "string", "minLength": 1},
        },
    ]
}
_NOW_REQUIRED = ("name", "flavorRef", "networks")
_V2_19: JSONDict = {"description": DESCRIPTION}
_TAGGED: JSONDict = {**_NETWORK, "tag": TAG}
#: Device tags of networks: absent from 2.37 on, and accepted again since 2.42.
_V2_32: JSONDict = {**_V2_19, "networks": _list_of(_TAGGED)}
_V2_37: JSONDict = {**_V2_19, "networks": _list_or_choice(_NETWORK)}
_V2_42: JSONDict = {**_V2_37, "networks": _list_or_choice(_TAGGED)}
_V2_52: JSONDict = {**_V2_42, "tags": TAGS}
_V2_63: JSONDict = {**_V2_52, "trusted_image_certificates": CERTIFICATES}
_V2_74: JSONDict = {**_V2_63, "host": NAME, "hypervisor_hostname": NAME}
_V2_90: JSONDict = {**_V2_74, "hostname": HOSTNAME}
_V2_94: JSONDict = {**_V2_90, "hostname": FQDN}

CREATE = Schemas(
    {
        (2, 1): _create(),
        (2, 19): _create(**_V2_19),
        (2, 32): _create(**_V2_32),
        (2, 37): _create(required=_NOW_REQUIRED, **_V2_37),
        (2, 42): _create(required=_NOW_REQUIRED, **_V2_42),
        (2, 52): _create(required=_NOW_REQUIRED, **_V2_52),
        (2, 57): _create(required=_NOW_REQUIRED, without=("personality",), **_V2_52),
        (2, 63): _create(required=_NOW_REQUIRED, without=("personality",), **_V2_63),
        (2, 74): _create(required=_NOW_REQUIRED, without=("personality",), **_V2_74),
        (2, 90): _create(required=_NOW_REQUIRED, without=("personality",), **_V2_90),
        (2, 94): _create(required=_NOW_REQUIRED, without=("personality",), **_V2_94),
    }
)

_UPDATED = {name: _SERVER[name] for name in ("name", "OS-DCF:diskConfig", "accessIPv4", "accessIPv6")}
_ZONE: JSONDict = {"pinned_availability_zone": {**NAME, "type": ["string", "null"]}}
UPDATE = Schemas(
    {
        (2, 1): body("server", _UPDATED),
        (2, 19): body("server", {**_UPDATED, **_V2_19}),
        (2, 90): body("server", {**_UPDATED, **_V2_19, "hostname": HOSTNAME}),
        (2, 94): body("server", {**_UPDATED, **_V2_19, "hostname": FQDN}),
        (2, 104): body("server", {**_UPDATED, **_V2_19, "hostname": FQDN, **_ZONE}),
    }
)

#: Query parameters of GET /servers. Some are filters for administrators, which the handler ignores for other users.
LIST_FILTERS = frozenset(
    {
        "all_tenants", "access_ip_v4", "access_ip_v6", "auto_disk_config", "availability_zone", "changes-since",
        "config_drive", "created_at", "deleted", "description", "display_description", "display_name", "flavor", "host",
        "hostname", "image", "image_ref", "ip", "kernel_id", "key_name", "launch_index", "launched_at", "limit",
        "locked_by", "marker", "name", "node", "power_state", "progress", "project_id", "ramdisk_id", "reservation_id",
        "root_device_name", "sort_dir", "sort_key", "soft_deleted", "status", "task_state", "tenant_id",
        "terminated_at", "user_id", "uuid", "vm_state", "metadata",
    }
)  # fmt: skip
#: Query parameters that are accepted without effect: names of Nova's database tables, which Nova accepts as filters.
_WITHOUT_EFFECT = (
    "block_device_mapping", "services", "system_metadata", "security_groups", "info_cache", "pci_devices",
)  # fmt: skip
_ANY = {"type": "array"}


def _list(extra: tuple[str, ...], *, strict: bool = False) -> JSONDict:
    return {
        "type": "object",
        "properties": {
            **dict.fromkeys((*LIST_FILTERS, *_WITHOUT_EFFECT, *extra), _ANY),
            "limit": {"type": "array", "items": {"type": "string", "pattern": "^[0-9]+$"}},
            "sort_dir": {"type": "array", "items": {"enum": ["asc", "desc"]}},
        },
        "additionalProperties": not strict,
    }


#: Query parameters for paging and sorting.
_PAGING = frozenset({"limit", "marker", "sort_dir", "sort_key"})
_TAG_FILTERS = ("ip6", "tags", "tags-any", "not-tags", "not-tags-any")
LIST = Schemas(
    {
        (2, 1): _list(()),
        (2, 26): _list(_TAG_FILTERS),
        (2, 66): _list((*_TAG_FILTERS, "changes-before")),
        (2, 75): _list((*_TAG_FILTERS, "changes-before", "locked"), strict=True),
    }
)
#: Filters for counting servers in the operator API: those of GET /servers at the newest microversion.
COUNTED_BY: JSONDict = {
    name: {"type": "string"} for name in (*(LIST_FILTERS - _PAGING), *_TAG_FILTERS, "changes-before", "locked")
}
