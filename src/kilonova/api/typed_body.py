# SPDX-License-Identifier: Apache-2.0
"""Typed request bodies: structs with the fields that a handler reads from a body that its JSON Schema has accepted.

A struct has no field for a property that Kilonova ignores. Microversions are the schema's concern: a property that a
microversion does not have is absent from the body, so its field has the default.
"""

from typing import TypeVar

import msgspec

Struct = TypeVar("Struct")
#: ``integer`` of JSON Schema, which accepts 1.0, too.
Whole = int | float
#: Boolean as Nova accepts it; see :func:`kilonova.api.schemas.types.as_bool`.
Flag = bool | str


def read_typed(kind: type[Struct], value: object) -> Struct:
    """Return a struct of the ``kind`` with the fields of ``value``, a decoded JSON value that fits its schema."""
    return msgspec.convert(value, kind)
