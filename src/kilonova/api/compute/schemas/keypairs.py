# SPDX-License-Identifier: Apache-2.0
"""Schemas of key pairs: creation, and queries."""

from kilonova.api.schemas.queries import PAGE
from kilonova.api.schemas.types import JSONDict, body, query, trimmed
from kilonova.api.validation import Schemas

_KEY: JSONDict = {
    "name": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": trimmed("a-zA-Z0-9_-", "a-zA-Z0-9 _-")},
    "public_key": {"type": "string"},
}
_TYPED: JSONDict = {**_KEY, "type": {"type": "string", "enum": ["ssh", "x509"]}}
_OWNED: JSONDict = {**_TYPED, "user_id": {"type": "string", "minLength": 1, "maxLength": 255}}
_IMPORTED: JSONDict = {**_OWNED, "name": {**_KEY["name"], "pattern": trimmed("a-zA-Z0-9@._-", "a-zA-Z0-9 @._-")}}

CREATE = Schemas(
    {
        (2, 1): body("keypair", _KEY, required=("name",)),
        (2, 2): body("keypair", _TYPED, required=("name",)),
        (2, 10): body("keypair", _OWNED, required=("name",)),
        (2, 92): body("keypair", _IMPORTED, required=("name", "public_key")),
    }
)
_USER: JSONDict = {"user_id": {"type": "string"}}
LIST = Schemas(
    {
        (2, 10): query(_USER),
        (2, 35): query(_USER | PAGE),
        (2, 75): query(_USER | PAGE, extra=False),
    }
)
ONE = Schemas({(2, 10): query(_USER), (2, 75): query(_USER, extra=False)})
