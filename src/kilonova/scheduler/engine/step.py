# SPDX-License-Identifier: Apache-2.0
"""What one rule of a funnel says."""

from typing import NamedTuple

from kilonova.scheduler.host_table import BoolArray


class Step(NamedTuple):
    """What one rule says of every host. Shapes: ``mask`` (H,), True for the hosts that pass."""

    rule: str
    reason: str
    mask: BoolArray
