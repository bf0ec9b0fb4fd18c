# SPDX-License-Identifier: Apache-2.0
"""Schema of the attachment of shares to servers."""

from kilonova.api.schemas.types import UUID, body
from kilonova.api.validation import Schemas

_TAG = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[a-zA-Z0-9-]*$"}
CREATE = Schemas({(2, 97): body("share", {"share_id": UUID, "tag": _TAG}, required=("share_id",))})
