# SPDX-License-Identifier: Apache-2.0
"""POST /operator/v1/preview: what a change of aggregates, hosts or rules would do. Nothing is changed.

What takes longer than a second becomes a job.
"""

import time
from collections.abc import Callable

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes, changes_nothing
from kilonova.api.operator.bodies.policy_change import AskedPreview
from kilonova.api.operator.jobs import queued_job
from kilonova.api.operator.policy_changes import checked_aggregates
from kilonova.api.operator.preview_job import KIND, preview_of
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.operator.schemas.policy_change import PREVIEW
from kilonova.api.read_only import require_writable
from kilonova.api.typed_body import read_typed
from kilonova.records import dataclass

#: Policy rules are those of the job.
RULES = ()
_LONGEST_S = 1.0


class TooLongError(Exception):
    """A computation takes longer than a request may."""


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit of the time of a computation. ``until``: the end, by ``clock``; units: seconds."""

    until: float
    clock: Callable[[], float] = time.monotonic

    def check(self, _done: float, _text: str) -> None:
        """Raise TooLongError if the time has passed."""
        if self.clock() > self.until:
            raise TooLongError


def show_preview(ctx: Context, request: Request) -> Reply:
    """POST /v1/preview.  202 and a job if it takes longer than a second.  Errors: 400 naming the field; 429."""
    ctx.authorize("kilonova:preview")
    asked = read_typed(AskedPreview, request.body)
    aggregates = checked_aggregates(ctx, asked)
    budget, backend = Budget(time.monotonic() + _LONGEST_S), ctx.backend
    try:
        with ctx.read() as connection:
            found = preview_of(
                connection, backend.mirror.clock(), backend.rebuild_rules, asked, aggregates, budget.check
            )
            return Reply(200, found)
    except TooLongError:
        require_writable(ctx.backend.writability)
        ctx.authorize("kilonova:jobs:create")
        return queued_job(ctx, KIND, request.body, {"asked": request.body, "aggregates": aggregates})


ROUTES: Routes = {"/v1/preview": {"POST": Endpoint(show_preview, body=PREVIEW, query=NO_QUERY, reads=changes_nothing)}}
