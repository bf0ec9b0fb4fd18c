# SPDX-License-Identifier: Apache-2.0
"""Schemas of flavor access: add and remove a project."""

from kilonova.api.schemas.types import JSONDict, body
from kilonova.api.validation import Schemas

_TENANT: JSONDict = {"tenant": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[a-zA-Z0-9-]*$"}}

ADD = Schemas({(2, 1): body("addTenantAccess", _TENANT, required=("tenant",))})
REMOVE = Schemas({(2, 1): body("removeTenantAccess", _TENANT, required=("tenant",))})
