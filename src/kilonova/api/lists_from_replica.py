# SPDX-License-Identifier: Apache-2.0
"""Lists from a read replica of the database, for routes that tolerate data of some seconds ago.

A reply that was read from the replica says how old its data are at most, in the header :data:`AGE`. A request with
``Cache-Control: no-cache`` is read from the database itself, and so is every request that fails on the replica.
"""

import math
from dataclasses import replace
from functools import wraps

from kilonova.api.http import Context, Handler, Reply, Request
from kilonova.errors import KilonovaError

#: Header of replies: the maximum age of their data in seconds.
AGE = "X-Kilonova-Data-Age"


def from_replica(handler: Handler) -> Handler:
    """Return a handler of a list, which reads from the replica if there is one and its data are recent enough."""

    @wraps(handler)
    def read(ctx: Context, request: Request) -> Reply:
        source = ctx.backend.replica
        if source is None or _wants_the_newest(request):
            return handler(ctx, request)
        age_s = source.age_s(ctx.now())
        if age_s is None:
            return handler(ctx, request)
        ctx.reads_from = source.database
        try:
            reply = handler(ctx, request)
        except KilonovaError:  # such as a marker that has not reached the replica
            reply = None
        finally:
            ctx.reads_from = None
        if reply is None:
            return handler(ctx, request)
        return replace(reply, headers={**reply.headers, AGE: str(math.ceil(age_s))})

    return read


def _wants_the_newest(request: Request) -> bool:
    return "no-cache" in request.headers.get("cache-control", "").lower()
