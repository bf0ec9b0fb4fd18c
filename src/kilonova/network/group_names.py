# SPDX-License-Identifier: Apache-2.0
"""Finds security groups by name or id; requests to the compute API contain either."""

from collections import defaultdict
from collections.abc import Sequence
from uuid import UUID

from kilonova.errors import Conflict, NotFound
from kilonova.network.client import NetworkClient

#: Name of the group that the network service gives to every port without groups.
DEFAULT_GROUP = "default"
_FIELDS = ("id", "name")


def group_ids(client: NetworkClient, token: str | None, project_id: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Return the ids of security groups, without duplicates. ``wanted``: names or ids of the groups.

    An id may be that of any group that the user can see; a name is looked up among the project's groups. The result is
    empty if ``wanted`` is empty or only ``default``: new ports without groups get the default group.
    Raises: NotFound; Conflict if several groups have the name.
    """
    if set(wanted) <= {DEFAULT_GROUP}:
        return ()
    return tuple(dict.fromkeys(_find(client, token, project_id, list(dict.fromkeys(wanted)))))


def group_id(client: NetworkClient, token: str | None, project_id: str, wanted: str) -> str:
    """Return the id of the group with a name or id. Raises: NotFound; Conflict if several groups have the name."""
    return _find(client, token, project_id, [wanted])[0]


def _find(client: NetworkClient, token: str | None, project_id: str, wanted: Sequence[str]) -> list[str]:
    ids = [each for each in wanted if _is_id(each)]
    known = (
        {each["id"] for each in client.list("security-groups", token=token, id=ids, fields=_FIELDS)} if ids else set()
    )
    names = [each for each in wanted if each not in known]
    named = defaultdict[str, list[str]](list)
    if names:
        found = client.list("security-groups", token=token, name=names, project_id=project_id, fields=_FIELDS)
        for each in found:
            named[each["name"]].append(each["id"])
    for name in names:
        if not named[name]:
            raise NotFound(f"Unable to find security_group with name or id '{name}'")
        if len(named[name]) > 1:
            raise Conflict(f"Multiple security_group matches found for name '{name}', use an ID to be more specific.")
    return [each if each in known else named[each][0] for each in wanted]


def _is_id(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
