# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/decisions/{name}: the decisions of a request id or a server, with the reason for every host."""

from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import ADMIN, rule
from kilonova.db import decisions
from kilonova.db.decisions import StoredDecision
from kilonova.errors import NotFound

RULES = (
    rule(
        "kilonova:decisions:show",
        ADMIN,
        "See why servers went where they are",
        ("GET", "/operator/v1/decisions/{name}"),
    ),
)


def show_decisions(ctx: Context, request: Request) -> Reply:
    """GET /v1/decisions/{name}.  Errors: 404 when none is kept under that name."""
    ctx.authorize("kilonova:decisions:show")
    name = request.path["name"]
    with ctx.backend.database.read() as connection:
        found = decisions.find(connection, name)
    if not found:
        raise NotFound(f"No decision is kept for {name}.")
    return Reply(200, {"decisions": [_view(decision) for decision in found]})


def _view(decision: StoredDecision) -> dict[str, Any]:
    steps = [
        {
            "rule": rule_name,
            "reason": reason,
            "hosts_in": hosts_in,
            "hosts_out": hosts_out,
            "removed": [{"host": host, "node": node} for host, node in decision.removed.get(index, ())],
        }
        for index, (rule_name, reason, hosts_in, hosts_out) in enumerate(decision.body["steps"])
    ]
    ranked = [
        {"host": host, "node": node, "score": score, "weights": weights}
        for host, node, score, weights in decision.body["ranked"]
    ]
    return {
        "request_id": decision.request_id,
        "server_id": decision.instance_uuid,
        "created_at": decision.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "seq": decision.seq,
        "chosen": decision.body["chosen"],
        "alternates": [{"host": host, "node": node} for host, node in decision.body.get("alternates", ())],
        "survivors": decision.body["survivors"],
        "forced": decision.body["forced"],
        "steps": steps,
        "ranked": ranked,
    }


ROUTES: Routes = {"/v1/decisions/{name}": {"GET": Endpoint(show_decisions)}}
