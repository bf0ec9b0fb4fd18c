# SPDX-License-Identifier: Apache-2.0
"""Shapes of SVG pictures."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from kilonova.records import dataclass

_WIDTH, _HEIGHT = 240, 40
_NARROWEST = 1.5


@dataclass(frozen=True, slots=True)
class FunnelPiece:
    """One rule of a decision. ``shape``: path of its piece in a box of 240 by 40.

    ``most``: whether no other rule rejects more hosts.
    """

    rule: str
    reason: str
    hosts_in: int
    hosts_out: int
    lost: int
    most: bool
    shape: str


def funnel(steps: Sequence[Mapping[str, Any]]) -> list[FunnelPiece]:
    """Return the pieces of the funnel of a decision, whose steps the operator API describes.

    A width is proportional to the square root of the number of hosts, so that a dozen hosts of thousands stay visible.
    """
    if not steps:
        return []
    widest = math.sqrt(max(1, steps[0]["hosts_in"]))
    biggest = max(step["hosts_in"] - step["hosts_out"] for step in steps)
    return [_piece(step, widest, biggest) for step in steps]


def _piece(step: Mapping[str, Any], widest: float, biggest: int) -> FunnelPiece:
    top, bottom = (
        max(_NARROWEST, math.sqrt(step[name]) / widest * _WIDTH / 2) if step[name] else 0.0
        for name in ("hosts_in", "hosts_out")
    )
    lost, middle = step["hosts_in"] - step["hosts_out"], _WIDTH / 2
    down = f"C{middle + top:.1f} 22 {middle + bottom:.1f} 18 {middle + bottom:.1f} {_HEIGHT}"
    up = f"C{middle - bottom:.1f} 18 {middle - top:.1f} 22 {middle - top:.1f} 0"
    shape = f"M{middle - top:.1f} 0H{middle + top:.1f}{down}H{middle - bottom:.1f}{up}Z"
    return FunnelPiece(
        step["rule"],
        step["reason"],
        step["hosts_in"],
        step["hosts_out"],
        lost,
        most=bool(lost) and lost == biggest,
        shape=shape,
    )
