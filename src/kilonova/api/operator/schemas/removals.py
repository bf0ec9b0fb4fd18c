# SPDX-License-Identifier: Apache-2.0
"""Schema of the body that removes a stray guest or a stray port: ``{"remove": {…}}``."""

from kilonova.api.schemas.types import JSONDict
from kilonova.api.validation import Schemas


def removal_by(properties: JSONDict) -> Schemas:
    """Return the schema of a removal. ``properties``: the schemas of the fields that identify it; all are required."""
    return Schemas({(1, 0): _exactly({"remove": _exactly(properties)})})


def _exactly(properties: JSONDict) -> JSONDict:
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
