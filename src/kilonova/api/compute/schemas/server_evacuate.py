# SPDX-License-Identifier: Apache-2.0
"""Schema of the evacuation of a server."""

from kilonova.api.schemas.types import BOOLEAN, HOST, JSONDict, body
from kilonova.api.validation import Schemas

_V2_14: JSONDict = {"host": HOST, "adminPass": {"type": "string"}}

EVACUATE = Schemas(
    {
        (2, 1): body("evacuate", {**_V2_14, "onSharedStorage": BOOLEAN}, required=("onSharedStorage",)),
        (2, 14): body("evacuate", _V2_14),
        (2, 29): body("evacuate", {**_V2_14, "force": BOOLEAN}),
        (2, 68): body("evacuate", _V2_14),
    }
)
