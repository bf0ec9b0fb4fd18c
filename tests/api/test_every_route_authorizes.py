# SPDX-License-Identifier: Apache-2.0
"""No handler replies without having asked policy: neither one that is there, nor one that somebody adds."""

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, cast

import pytest
from oslo_config import cfg

from api.access_table import DISCOVERY
from api.access_world import ACTIONS, FAMILIES
from kilonova.api.application import family_app
from kilonova.api.auth import noauth2
from kilonova.api.backend import Backend
from kilonova.api.http import Context, Endpoint, Reply, Request
from kilonova.api.operator.family import OperatorFamily
from kilonova.api.policy import Policy
from kilonova.config.api import ApiSettings
from kilonova.config.database import DatabaseSettings
from kilonova.config.settings import Settings
from support.api_client import send

HANDLERS = {
    f"{family.name} {method} {template} {name}".rstrip(): chosen.handler
    for family in FAMILIES
    for template, endpoints in family.routes.items()
    for method, endpoint in endpoints.items()
    for name, chosen in ACTIONS.get(
        "/" + template.split("/", 2)[-1].removeprefix("{project_id}/").replace("os-volumes_boot", "servers"),
        {"": endpoint},
    ).items()
    if f"{family.name} {method} {template}" not in DISCOVERY
}


def authorizes(function: Callable[..., Any], seen: frozenset[Any] = frozenset()) -> bool:
    """Whether a function calls ``ctx.authorize…``, itself or through one that it hands its context."""
    function = inspect.unwrap(function)
    if function in seen:
        return False
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute) and called.attr in {"authorize", "authorize_anyone"}:
            return True
        if any(isinstance(argument, ast.Name) and argument.id == "ctx" for argument in node.args):
            target = _target(called, function)
            if target is not None and authorizes(target, seen | {function}):
                return True
    return False


def _target(called: ast.expr, function: Callable[..., Any]) -> Callable[..., Any] | None:
    known = function.__globals__ | dict(inspect.getclosurevars(function).nonlocals)
    found: Any = None
    if isinstance(called, ast.Name):
        found = known.get(called.id)
    elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
        found = getattr(known.get(called.value.id), called.attr, None)
    return found if inspect.isfunction(inspect.unwrap(found)) else None


@pytest.mark.parametrize("route", sorted(HANDLERS))
def test_the_handler_of_a_route_asks_policy(route: str) -> None:
    assert authorizes(HANDLERS[route])


def test_a_handler_that_asks_nobody_is_found() -> None:
    assert not authorizes(_tells_everything)
    assert len(HANDLERS) > 150


def _tells_everything(ctx: Context, request: Request) -> Reply:
    return Reply(200, {"secret": "spilled", "by": ctx.user_id, "url": request.url})


class _Careless(OperatorFamily):
    routes = {"/v1/secrets": {"GET": Endpoint(_tells_everything)}}  # noqa: RUF012  as every family has them


def test_what_a_careless_handler_says_is_told_to_nobody() -> None:
    conf = cfg.ConfigOpts()
    conf([], project="kilonova", default_config_files=[], default_config_dirs=[])
    nothing = cast("Any", None)
    settings = Settings(DatabaseSettings("sqlite://"), api=ApiSettings("noauth2"), conf=conf)
    backend = Backend(
        settings=settings, database=nothing, mirror=nothing, policy=Policy(conf, ()), conductor=nothing, images=nothing
    )
    app = noauth2(family_app(_Careless, backend), plain_roles=())
    answer = send(app, "GET", "/v1/secrets", b"", {"X-Auth-Token": "admin"})
    assert answer.status == 500
    assert b"spilled" not in answer.raw
