# SPDX-License-Identifier: Apache-2.0
"""Schemas of quota sets, quota classes and limits, and the limited resources that each microversion shows."""

from kilonova.api.microversion import Version
from kilonova.api.schemas.types import BOOLEAN, MAX_INTEGER, JSONDict, body, query
from kilonova.api.validation import Schemas
from kilonova.model.quota import COUNTED, INJECTED_FILES, NETWORKS, SERVER_GROUPS

_ALWAYS = (*COUNTED, "metadata_items", "key_pairs")
#: A limit; -1 means unlimited. If it is a string of digits, the handler checks its range, because the schema does not.
_LIMIT: JSONDict = {
    "type": ["integer", "string"],
    "pattern": "^-?[0-9]+$",
    "maxLength": len(str(MAX_INTEGER)),
    "minimum": -1,
    "maximum": MAX_INTEGER,
}


def quota_set_resources(version: Version) -> tuple[str, ...]:
    """Return the resources that a quota set shows: 2.36 removes networks, 2.57 removes injected files."""
    networks = NETWORKS if version < Version(2, 36) else ()
    injected = INJECTED_FILES if version < Version(2, 57) else ()
    return (*_ALWAYS, *SERVER_GROUPS, *injected, *networks)


def class_resources(version: Version) -> tuple[str, ...]:
    """Return the resources that a quota class shows.

    2.50 adds server groups and removes networks; 2.57 removes injected files.
    """
    injected = INJECTED_FILES if version < Version(2, 57) else ()
    return (*_ALWAYS, *injected, *(NETWORKS if version < Version(2, 50) else SERVER_GROUPS))


def _limits(names: tuple[str, ...], **more: JSONDict) -> JSONDict:
    return {**dict.fromkeys(names, _LIMIT), **more}


_SET_VERSIONS, _CLASS_VERSIONS = ((2, 1), (2, 36), (2, 57)), ((2, 1), (2, 50), (2, 57))
UPDATE_SET = Schemas(
    {
        version: body("quota_set", _limits(quota_set_resources(Version(*version)), force=BOOLEAN))
        for version in _SET_VERSIONS
    }
)
UPDATE_CLASS = Schemas(
    # As in Nova, every microversion can set the limits of server groups, but only 2.50 and later show them.
    {
        version: body("quota_class_set", _limits((*class_resources(Version(*version)), *SERVER_GROUPS)))
        for version in _CLASS_VERSIONS
    }
)
_USER: JSONDict = {"user_id": {"type": "string", "maxLength": 255}}
OF_USER = Schemas({(2, 1): query(_USER), (2, 75): query(_USER, extra=False)})
_OWNER: JSONDict = {**_USER, "tenant_id": {"type": "string", "maxLength": 255}, "reserved": {"type": "string"}}
LIMITS = Schemas({(2, 1): query(_OWNER), (2, 75): query(_OWNER, extra=False)})
