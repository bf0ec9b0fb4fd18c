# SPDX-License-Identifier: Apache-2.0
"""Saved plans of a running cloud, for commands: saved, applied, and waited for with a progress bar."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import typer

from kilonova.cli.cloud.options import OPERATOR, Api, WritableApi
from kilonova.cli.cloud.plan_tables import print_saved_plan
from kilonova.cli.cloud.printing import print_json
from kilonova.cli.cloud.progress import progress_bar
from kilonova.cli.exit_codes import one_is_an_answer
from kilonova.errors import Unavailable
from kilonova.model.saved_plan import ACTIVE, FINAL, PlanKind, PlanState

_ASKED_EVERY_S = 0.5
#: Time without an answer of the cloud after which a command no longer waits. The plan itself goes on.
_PATIENCE_S = 120.0


def save_plan(cloud: WritableApi, body: Mapping[str, Any]) -> dict[str, Any]:
    """Save a plan and return it. ``body``: of POST /operator/v1/plans."""
    found: dict[str, Any] = cloud.call("POST", OPERATOR, "/plans", json=body)["plan"]
    return found


def act_on(cloud: WritableApi, plan: str, action: str) -> dict[str, Any]:
    """Apply, pause, resume or cancel a plan, and return it."""
    found: dict[str, Any] = cloud.call("POST", OPERATOR, f"/plans/{plan}/{action}")["plan"]
    return found


def show_plan(cloud: Api, plan: str) -> dict[str, Any]:
    """Return a plan with its moves."""
    found: dict[str, Any] = cloud.get(OPERATOR, f"/plans/{plan}")["plan"]
    return found


def wait_for_plan(
    cloud: Api,
    uuid: str,
    *,
    shows_progress: bool = True,
    pause: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> dict[str, Any]:
    """Wait until a plan has ended or is paused, and return it. Ctrl-C ends the wait; the plan goes on.

    Restarts of control processes are waited for. ``shows_progress``: whether a bar on the standard error stream shows
    the progress, if that is a terminal. Raises: what the connection raises.
    """
    heard_at = clock()
    with progress_bar("plan", is_shown=shows_progress) as show:
        while True:
            try:
                plan = cloud.get(OPERATOR, f"/plans/{uuid}", moves="false")["plan"]
            except Unavailable:
                if clock() - heard_at > _PATIENCE_S:
                    raise
            else:
                heard_at = clock()
                show(_share(plan), f"{plan['state']}: {plan['message']}" if plan["message"] else plan["state"])
                if plan["state"] in FINAL or (plan["state"] == "paused" and not plan["progress"]["running"]):
                    return show_plan(cloud, uuid)
            pause(_ASKED_EVERY_S)


def drain_of(cloud: Api, hosts: Sequence[str]) -> dict[str, Any] | None:
    """Return the plan that drains exactly these hosts, if it is running or paused."""
    found = _active_drains(cloud, (PlanState.RUNNING, PlanState.PAUSED))
    return next((plan for plan in found if set(plan["request"]["hosts"]) == set(hosts)), None)


def drain_of_any(cloud: Api, hosts: Sequence[str]) -> dict[str, Any] | None:
    """Return a running, paused or cancelling plan that drains at least one of these hosts."""
    return next((plan for plan in _active_drains(cloud, ACTIVE) if {*plan["request"]["hosts"]} & {*hosts}), None)


def _active_drains(cloud: Api, states: Collection[PlanState]) -> Iterator[dict[str, Any]]:
    for state in states:
        for plan in cloud.get(OPERATOR, "/plans", state=state.value)["plans"]:
            if plan["kind"] == PlanKind.DRAIN:
                yield plan


def is_complete(plan: Mapping[str, Any]) -> bool:
    """Return whether a plan has moved all that it was to move."""
    return plan["state"] == "done" and not plan["stays"]


def act_and_wait(cloud: WritableApi, plan: str, action: str, *, waits: bool, as_json: bool) -> None:
    """Give a plan another state, wait for its end if requested, and print it.

    Raises: Exit with code 1 if the plan was waited for and a server stays. Then all errors have the exit code 2.
    """
    if not waits:
        tell_plan(act_on(cloud, plan, action), as_json=as_json)
        return
    with one_is_an_answer():
        act_on(cloud, plan, action)
        found = wait_for_plan(cloud, plan, shows_progress=not as_json)
    tell_plan(found, as_json=as_json)
    if not is_complete(found):
        raise typer.Exit(1)


def save_and_apply(cloud: WritableApi, body: Mapping[str, Any], *, applies: bool, waits: bool, as_json: bool) -> None:
    """Save a plan, apply it and wait for its end, as requested, and print it.

    Raises: Exit with code 1 if a server stays; without a wait, if one is known to stay.
    """
    plan = save_plan(cloud, body)
    if applies:
        act_and_wait(cloud, plan["id"], "apply", waits=waits, as_json=as_json)
    else:
        tell_plan(plan, as_json=as_json)
    if plan["stays"] and not (applies and waits):
        raise typer.Exit(1)


def tell_plan(plan: Mapping[str, Any], *, as_json: bool) -> None:
    """Print a saved plan as JSON or as tables."""
    if as_json:
        print_json(plan)
    else:
        print_saved_plan(plan)


def _share(plan: Mapping[str, Any]) -> float:
    """Return the share of the moves of a plan that have ended."""
    counts = plan["progress"]
    total = sum(counts.values())
    return 1 - (counts["planned"] + counts["running"]) / total if total else 1.0
