# SPDX-License-Identifier: Apache-2.0
"""Check that a host, server or flavor in a filter exists, and find the hosts and the aggregate that a body names.

A misspelt name in a filter would otherwise cause an empty list.
"""

from collections.abc import Sequence

from sqlalchemy.engine import Connection

from kilonova.api.validation import invalid_field, invalid_parameter
from kilonova.db import aggregates, flavors, instances, services
from kilonova.errors import NotFound
from kilonova.model.aggregate import Aggregate
from kilonova.model.host import Service


def require_host(connection: Connection, parameter: str, host: str | None) -> None:
    """Raise InvalidRequest naming the query parameter if the host does not exist. None is valid: no filter."""
    if host is not None and services.find_by_host(connection, host) is None:
        raise invalid_parameter(parameter, host, f"There is no host {host}.")


def require_server(connection: Connection, parameter: str, uuid: str | None) -> None:
    """Raise InvalidRequest naming the query parameter if no server, not even a deleted one, has this uuid."""
    if uuid is not None and instances.find_any(connection, uuid) is None:
        raise invalid_parameter(parameter, uuid, f"There is no server {uuid}.")


def require_flavor(connection: Connection, parameter: str, reference: str | None) -> None:
    """Raise InvalidRequest naming the query parameter if the flavor does not exist. ``reference``: its id or a link."""
    if reference is None:
        return
    try:
        flavors.get(connection, reference.rstrip("/").rpartition("/")[2])
    except NotFound as error:
        raise invalid_parameter(parameter, reference, error.message) from None


def compute_services(connection: Connection, hosts: Sequence[str]) -> list[Service]:
    """Return the compute services of hosts. Raises: InvalidRequest naming the item of the field ``hosts``."""
    found = services.computes_of(connection, hosts)
    for number, host in enumerate(hosts):
        if host not in found:
            raise invalid_field(f"hosts[{number}]", f"Compute host {host} could not be found.")
    return [found[host] for host in hosts]


def aggregate_of(connection: Connection, reference: str) -> Aggregate:
    """Return the aggregate with this id or name. Raises: InvalidRequest naming the field ``aggregate``."""
    every = aggregates.list_all(connection)
    named = [each for each in every if str(each.id) == reference] or [each for each in every if each.name == reference]
    if not named:
        raise invalid_field("aggregate", f"Aggregate {reference} could not be found.")
    return named[0]
