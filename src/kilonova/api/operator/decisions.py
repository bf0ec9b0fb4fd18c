# SPDX-License-Identifier: Apache-2.0
"""GET /operator/v1/decisions/{name}: the scheduler's decisions for a request id or a server.

``name``: a request id (oldest decision first) or a server's uuid (newest decision first). A decision lists, for each
rule, the hosts that the rule rejected. ``replay=true`` repeats each decision on the hosts' state at the time of that
decision. ``hosts=true`` adds, for every host, the reasons of all rules that reject it.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine import Connection

from kilonova import deadline
from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.operator.paging import flag, host_filters
from kilonova.api.operator.schemas.parameters import DECISIONS_QUERY, HOSTS_CHOSEN_BY
from kilonova.api.operator.unread import unread_of_request
from kilonova.api.operator.views import hosts_page, rules_view
from kilonova.api.policy import ADMIN, rule
from kilonova.api.validation import invalid_parameter
from kilonova.claims.replay import NoReplay, Outcome, replay_all
from kilonova.config.scheduler import scheduling_digest
from kilonova.db import decisions, instances, request_specs
from kilonova.db.decisions import StoredDecision
from kilonova.deadline import heeding
from kilonova.errors import NotFound
from kilonova.scheduler.devices.pci_request import read_aliases

RULES = (
    rule(
        "kilonova:decisions:show",
        ADMIN,
        "Show why the scheduler chose hosts for servers",
        ("GET", "/operator/v1/decisions/{name}"),
    ),
)


def show_decisions(ctx: Context, request: Request) -> Reply:
    """GET /v1/decisions/{name}.  Errors: 400 naming the parameter; 404 if no decision is stored for ``name``."""
    ctx.authorize("kilonova:decisions:show")
    name, backend = request.path["name"], ctx.backend
    with_hosts, filters = bool(flag(request, "hosts")), host_filters(ctx, request)
    if not with_hosts:
        _require_no_choice_of_hosts(request)
    with ctx.read() as connection:
        found = decisions.find(connection, name)
        if not found:
            raise NotFound(f"No decision is stored for {name}.")
        views = [_view(decision) for decision in heeding(found)]
        _add_unread(ctx, connection, views)
        if with_hosts or flag(request, "replay"):
            digest = scheduling_digest(backend.settings.scheduler)
            aliases = read_aliases(backend.settings.scheduler.pci_alias)
            outcomes = replay_all(connection, backend.engine, digest, found, aliases)
            for view, outcome in zip(views, outcomes, strict=True):
                deadline.check()  # a replay takes as long as a decision of the scheduler
                view["replay"] = _replay_view(outcome, filters if with_hosts else None)
    return Reply(200, {"decisions": views})


def _require_no_choice_of_hosts(request: Request) -> None:
    """Raise InvalidRequest if the request filters hosts although it does not have ``hosts=true``."""
    for name in HOSTS_CHOSEN_BY:
        if (value := request.param(name)) is not None:
            raise invalid_parameter(name, value, "This parameter filters hosts, so it needs hosts=true.")


def _add_unread(ctx: Context, connection: Connection, views: Sequence[dict[str, Any]]) -> None:
    """Add to each decision's view the keys of the request that no scheduler rule reads.

    For a deleted server there are none, since its request is deleted, too.
    """
    servers = instances.get_many(connection, list(dict.fromkeys(view["server_id"] for view in views)))
    requests = request_specs.get_many(connection, servers)
    hosts = ctx.backend.mirror.snapshot()
    told: dict[tuple[str, str | None], dict[str, Any]] = {}
    for view in heeding(views):
        stored = requests.get(view["server_id"])
        if stored is None:
            view.update(unread=[], may_read_anything=[])
            continue
        chosen = view["chosen"]
        if (stored.uuid, chosen) not in told:
            told[stored.uuid, chosen] = unread_of_request(ctx, hosts, stored.spec, () if chosen is None else (chosen,))
        view.update(told[stored.uuid, chosen])


def _replay_view(outcome: Outcome, filters: dict[str, Any] | None) -> dict[str, Any]:
    """Return the view of a replay. ``filters``: filters of the hosts to show, or None to show no hosts."""
    if isinstance(outcome, NoReplay):
        return {"possible": False, "reason": outcome.reason}
    view = {
        "possible": True,
        "identical": not outcome.differences,
        "differences": list(outcome.differences),
        "notes": list(outcome.notes),
    }
    if filters is not None:
        view |= {"rules": rules_view(outcome.explanation), **hosts_page(outcome.hosts, outcome.explanation, **filters)}
    return view


def _view(decision: StoredDecision) -> dict[str, Any]:
    decided_at = decision.created_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
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
        "created_at": decided_at,
        "scheduled_at": None if decision.body["chosen"] is None else decided_at,
        "seq": decision.seq,
        "move": decision.body.get("move"),
        "chosen": decision.body["chosen"],
        "alternates": [{"host": host, "node": node} for host, node in decision.body.get("alternates", ())],
        "survivors": decision.body["survivors"],
        "forced": decision.body["forced"],
        "steps": steps,
        "ranked": ranked,
    }


ROUTES: Routes = {"/v1/decisions/{name}": {"GET": Endpoint(show_decisions, query=DECISIONS_QUERY)}}
