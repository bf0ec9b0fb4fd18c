# SPDX-License-Identifier: Apache-2.0
"""[operator]: what is kept for the people who run the cloud, and for how long."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Decisions, checkpoints and deleted servers."""

    GROUP: ClassVar[str] = "operator"

    purge_deleted_after_days: Annotated[
        int, Option("Remove servers for good so many days after they were deleted; 0: never (Kilonova's own).", min=0)
    ] = 0
    decision_retention: Annotated[int, Option("Decisions kept for `kilonova explain`.", min=0)] = 10_000
    checkpoints_kept: Annotated[
        int, Option("Checkpoints, one an hour, from which decisions are made again.", min=0)
    ] = 4
