# SPDX-License-Identifier: Apache-2.0
"""Schemas of resource classes and traits."""

import re

from kilonova.api.placement.schemas.types import CUSTOM_PATTERN, STRING, strict
from kilonova.api.placement.schemas.validation import BodySchemas, QuerySchemas
from kilonova.api.schemas.types import JSONDict

CUSTOM_NAME: JSONDict = {"type": "string", "pattern": CUSTOM_PATTERN, "maxLength": 255}

RESOURCE_CLASS = BodySchemas({(1, 2): strict({"name": CUSTOM_NAME}, "name")})
LIST_TRAITS = QuerySchemas({(1, 6): strict({"name": STRING, "associated": STRING})})

_CUSTOM = re.compile(CUSTOM_PATTERN.removesuffix("$"))


def is_custom_name(name: str) -> bool:
    """Whether ``name`` is a valid name of a custom resource class or trait."""
    return len(name) <= 255 and _CUSTOM.fullmatch(name) is not None
