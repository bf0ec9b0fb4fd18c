# SPDX-License-Identifier: Apache-2.0
"""What [DEFAULT] says of the work that control processes do from time to time."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class ChoreSettings:
    """Units: seconds."""

    GROUP: ClassVar[str] = "DEFAULT"

    reclaim_instance_interval_s: Annotated[
        int,
        Option(
            "Seconds for which a deleted server can be restored before it is deleted for good. 0: it is deleted at "
            "once; a negative value: it is never deleted for good unless somebody asks for that.",
            name="reclaim_instance_interval",
        ),
    ] = 0
