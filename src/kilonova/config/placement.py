# SPDX-License-Identifier: Apache-2.0
"""[placement]: options of the Placement API."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.placement.search_budget import DEFAULT_STEPS
from kilonova.records import dataclass

#: Project and user of consumers whose allocations were written with a microversion before 1.8, which has no field for
#: them.
NO_OWNER = "00000000-0000-0000-0000-000000000000"


@dataclass(frozen=True, slots=True)
class PlacementSettings:
    """Options of allocation candidates and consumers.

    ``max_allocation_candidates``: -1 for no limit. ``max_search_steps``: 0 for no limit.
    """

    GROUP: ClassVar[str] = "placement"

    randomize_allocation_candidates: Annotated[bool, Option("Whether candidates are chosen and ordered at random.")] = (
        False
    )
    max_allocation_candidates: Annotated[
        int, Option("Most allocation candidates generated; -1: no limit.", min=-1)
    ] = -1
    max_search_steps: Annotated[
        int,
        Option(
            "Most steps of a search for allocation candidates; a longer search is refused. 0: no limit (Kilonova's "
            "own).",
            min=0,
        ),
    ] = DEFAULT_STEPS
    allocation_candidates_generation_strategy: Annotated[
        str,
        Option(
            "Order of candidates: depth-first lists all candidates of one root provider before those of the next; "
            "breadth-first lists one candidate of each root provider in turn.",
            choices=("depth-first", "breadth-first"),
        ),
    ] = "depth-first"
    incomplete_consumer_project_id: Annotated[str, Option()] = NO_OWNER
    incomplete_consumer_user_id: Annotated[str, Option()] = NO_OWNER
