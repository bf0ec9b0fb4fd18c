# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/metrics: Prometheus metrics of the control process that replies."""

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule

RULES = (rule("kilonova:metrics:show", ADMIN, "Read the metrics", ("GET", "/operator/v1/metrics")),)


def show_metrics(ctx: Context, request: Request) -> Reply:
    """GET /v1/metrics.  The reply is in Prometheus' text format, or in OpenMetrics if the client accepts that."""
    ctx.authorize("kilonova:metrics:show")
    text, media_type = ctx.backend.metrics.text(request.headers.get("Accept"))
    return Reply(200, text, {"Content-Type": media_type})


ROUTES: Routes = {"/v1/metrics": {"GET": Endpoint(show_metrics, query=NO_QUERY)}}
