# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/options: options in force in the control process that replies, except secret options."""

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.operator.schemas.parameters import NO_QUERY
from kilonova.api.policy import ADMIN, rule
from kilonova.config.configuration import public_options

RULES = (rule("kilonova:options:show", ADMIN, "Show the options in force", ("GET", "/operator/v1/options")),)


def show_options(ctx: Context, request: Request) -> Reply:
    """GET /v1/options.  Returns group → option → value."""
    del request
    ctx.authorize("kilonova:options:show")
    return Reply(200, {"options": public_options(ctx.backend.settings.conf)})


ROUTES: Routes = {"/v1/options": {"GET": Endpoint(show_options, query=NO_QUERY)}}
