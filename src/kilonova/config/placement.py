# SPDX-License-Identifier: Apache-2.0
"""[placement]: how the Placement API answers."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.placement.search_budget import DEFAULT_STEPS

#: Owner of consumers whose allocations were written before microversion 1.8, which names none.
NO_OWNER = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """``max_allocation_candidates`` -1: any number of candidates is generated. ``max_search_steps`` 0: any number."""

    GROUP: ClassVar[str] = "placement"

    randomize_allocation_candidates: Annotated[bool, Option("A random choice in random order.")] = False
    max_allocation_candidates: Annotated[int, Option("Most candidates generated; -1: no limit.", min=-1)] = -1
    max_search_steps: Annotated[
        int,
        Option("Steps after which a search for allocation candidates is refused; 0: no limit (Kilonova's own).", min=0),
    ] = DEFAULT_STEPS
    allocation_candidates_generation_strategy: Annotated[
        str,
        Option(
            "All candidates of one root before the next, or one of each root in turn.",
            choices=("depth-first", "breadth-first"),
        ),
    ] = "depth-first"
    incomplete_consumer_project_id: Annotated[str, Option()] = NO_OWNER
    incomplete_consumer_user_id: Annotated[str, Option()] = NO_OWNER
