# SPDX-License-Identifier: Apache-2.0
"""Schemas of power actions on a server, most of them without parameters."""

from kilonova.api.schemas.types import anything, body
from kilonova.api.validation import Schemas

REBOOT = Schemas(
    {(2, 1): body("reboot", {"type": {"enum": ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]}}, required=("type",))}
)
#: Action → schema of its body.
PLAIN = {
    name: Schemas({(2, 1): anything(name)}) for name in ("os-start", "os-stop", "pause", "unpause", "suspend", "resume")
}
