# SPDX-License-Identifier: Apache-2.0
"""[operator]: retention of decisions, checkpoints and deleted servers."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Retention of decisions, checkpoints and deleted servers."""

    GROUP: ClassVar[str] = "operator"

    purge_deleted_after_days: Annotated[
        int, Option("Days after which deleted servers are purged from the database; 0: never (Kilonova's own).", min=0)
    ] = 0
    decision_retention: Annotated[int, Option("Number of scheduling decisions kept for `kilonova explain`.", min=0)] = (
        10_000
    )
    checkpoints_kept: Annotated[
        int, Option("Number of hourly checkpoints kept; stored decisions are replayed from them.", min=0)
    ] = 4
