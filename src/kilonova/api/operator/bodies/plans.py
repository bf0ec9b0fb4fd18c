# SPDX-License-Identifier: Apache-2.0
"""Bodies of requests for plans."""

import msgspec

from kilonova.model.move_plan import How, Objective
from kilonova.planning.plan import Limits


class AskedLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of each wave; None for no limit."""

    per_host: int | None = None
    per_wave: int | None = None
    gib_per_host: float | None = None

    @property
    def limits(self) -> Limits:
        return Limits(self.per_host, self.per_wave, self.gib_per_host)


class AskedDrain(msgspec.Struct, frozen=True, kw_only=True):
    """Body of POST /operator/v1/drain. ``aggregate``: name or id of an aggregate whose hosts are drained, too.

    ``locked``: whether locked servers are moved.
    """

    hosts: tuple[str, ...] = ()
    aggregate: str | None = None
    how: How = How.EITHER
    limits: AskedLimits = AskedLimits()
    locked: bool = False


class AskedRebalance(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of jobs of the kind ``rebalance``. ``aggregate``: name or id; ``resource``: of the objective level."""

    objective: Objective
    resource: str | None = None
    aggregate: str | None = None
    moves: int | None = None
    gib: float | None = None
    how: How = How.EITHER
    limits: AskedLimits = AskedLimits()
    locked: bool = False
