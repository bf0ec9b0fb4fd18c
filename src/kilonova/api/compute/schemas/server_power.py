# SPDX-License-Identifier: Apache-2.0
"""Actions about one guest where it is, most of which say no more than their name."""

from kilonova.api.schemas.types import anything, body
from kilonova.api.validation import Schemas

REBOOT = Schemas(
    {(2, 1): body("reboot", {"type": {"enum": ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]}}, required=("type",))}
)
#: action → schema of its body
PLAIN = {
    name: Schemas({(2, 1): anything(name)}) for name in ("os-start", "os-stop", "pause", "unpause", "suspend", "resume")
}
