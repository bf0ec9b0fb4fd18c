# SPDX-License-Identifier: Apache-2.0
"""Changes of policy that a client describes: checked, and resolved to ids and names as they are stored."""

from collections.abc import Mapping

from sqlalchemy.engine import Connection

from kilonova.api.http import Context
from kilonova.api.operator.bodies.policy_change import AskedChange
from kilonova.api.operator.known_names import aggregate_of
from kilonova.api.validation import invalid_field
from kilonova.db import services
from kilonova.errors import InvalidRequest


def checked_aggregates(ctx: Context, asked: AskedChange) -> dict[str, int]:
    """Return reference → id of the changed aggregates. Errors: 400 naming the field, also for rules and hosts."""
    if ctx.backend.driver_name is not None:
        raise InvalidRequest(
            f"The scheduler driver {ctx.backend.driver_name} decides in place of the rules, so its decisions cannot be"
            " repeated."
        )
    ctx.backend.rebuild_rules(asked.rules)
    with ctx.read() as connection:
        return resolved_aggregates(connection, asked)


def resolved_aggregates(connection: Connection, asked: AskedChange) -> dict[str, int]:
    """Return reference → id of the changed aggregates. Raises: InvalidRequest naming the field, also for hosts."""
    found: dict[str, int] = {}
    for reference, change in asked.aggregates.items():
        found[reference] = aggregate_of(connection, reference).id
        for field, hosts in (("add_hosts", change.add_hosts), ("remove_hosts", change.remove_hosts)):
            for host in hosts:
                _require_host(connection, f"aggregates.{reference}.{field}", host)
        if both := sorted({*change.add_hosts} & {*change.remove_hosts}):
            raise invalid_field(f"aggregates.{reference}", f"Host {both[0]} cannot be added and removed.")
    if len({*found.values()}) != len(found):
        raise invalid_field("aggregates", "One aggregate is named twice.")
    for host in asked.hosts:
        _require_host(connection, "hosts", host)
    return found


def _require_host(connection: Connection, field: str, name: str) -> None:
    service = services.find_by_host(connection, name)
    if service is None or service.host != name:
        raise invalid_field(field, f"Compute host {name} could not be found.")


def unmet(asked: AskedChange, aggregates: Mapping[str, int], met: frozenset[int]) -> list[str]:
    """Return the changed aggregates that did not exist at the time of any decision."""
    return sorted(reference for reference in asked.aggregates if aggregates[reference] not in met)
