# SPDX-License-Identifier: Apache-2.0
"""The verdict of one rule in a scheduling decision."""

from typing import NamedTuple

from kilonova.scheduler.host_table import BoolArray


class Step(NamedTuple):
    """The verdict of one rule on all hosts. Shapes: ``mask`` (H,), True for the hosts that pass.

    ``judge``: the object that gave the verdict, if the verdict depends on more than the request and the columns that
    snapshots share: a filter, or a Placement condition (``LaterRoom``, ``LaterPlacement``).
    """

    rule: str
    reason: str
    mask: BoolArray
    judge: object = None
