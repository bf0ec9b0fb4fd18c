# SPDX-License-Identifier: Apache-2.0
"""What `kilonova policy list` says that rules guard is there, and every route is guarded by one of them."""

import re

from kilonova.api.compute import family as compute
from kilonova.api.compute.family import ComputeFamily
from kilonova.api.compute.removed import gone
from kilonova.api.operator.family import OperatorFamily
from kilonova.api.placement.family import PlacementFamily
from kilonova.cli.wiring.apis import RULES

#: They need no rule: what a token of any project, or of none, may see.
_OPEN = {
    *("GET /", "GET /v2", "GET /v2/", "GET /v2.1", "GET /v2.1/", "GET /v1"),
}
_PARAMETER = re.compile(r"{\w+}")
_ACTIONS = {
    template: module.ACTIONS
    for module in compute.RESOURCES
    for template in module.ROUTES
    if template.endswith("/action") and hasattr(module, "ACTIONS")
}


def _routes() -> set[str]:
    found = set()
    for family in (ComputeFamily, PlacementFamily, OperatorFamily):
        for template, endpoints in family.routes.items():
            if template.startswith("/v2.1/{project_id}"):
                continue
            path = template.removeprefix("/v2.1") if len(template) > len("/v2.1/") else template
            if path.startswith("/os-volumes_boot"):  # the handlers of /servers under another name
                continue
            if f"{path}/".startswith("/images/"):  # who may, says the image service
                continue
            prefix = "/operator" if path.startswith("/v1/") else ""
            for method, endpoint in endpoints.items():
                names = _ACTIONS.get(path, {"": endpoint})
                for name, chosen in names.items():
                    if chosen.handler is not gone:
                        found.add(_PARAMETER.sub("{}", f"{method} {prefix}{path}{f' ({name})' if name else ''}"))
    return found


def _guarded() -> dict[str, str]:
    return {
        _PARAMETER.sub("{}", f"{each['method']} {each['path']}"): rule.name
        for rule in RULES
        for each in getattr(rule, "operations", ())
    }


def test_what_rules_guard_is_there() -> None:
    routes = _routes()
    assert len(routes) > 150
    assert {route: name for route, name in _guarded().items() if route not in routes} == {}


def test_every_route_has_a_rule() -> None:
    assert _routes() - set(_guarded()) - _OPEN == set(), "say in the rules' operations what guards these"
