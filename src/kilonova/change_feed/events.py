# SPDX-License-Identifier: Apache-2.0
"""Events of the change feed: the commits of the change log in a compact, documented form."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import orjson

from kilonova.db.change_log.changes import (
    Change,
    Commit,
    LoggedAgents,
    LoggedAggregate,
    LoggedDevices,
    LoggedGroup,
    LoggedInstance,
    LoggedNode,
    LoggedProcess,
    LoggedProvider,
    LoggedService,
    LoggedUse,
)
from kilonova.records import dataclass

#: Maximum number of changes of one commit, and of names in one change, that an event lists.
MOST_CHANGES, MOST_NAMES = 1000, 100
#: Kind in the change log → kind in events.
KINDS: Mapping[str, str] = {
    "provider": "provider",
    "usage": "allocation",
    "node": "host",
    "metrics": "metrics",
    "devices": "devices",
    "service": "service",
    "process": "process",
    "agents": "agents",
    "aggregate": "aggregate",
    "isolation": "isolation",
    "group": "server_group",
    "instance": "server",
}


def event_of(commit: Commit, at: datetime) -> dict[str, Any]:
    """Return the event of a commit that was made at ``at``. ``omitted``: number of changes that it does not list."""
    listed = [_change(each) for each in commit.changes[:MOST_CHANGES] if each.kind in KINDS]
    event: dict[str, Any] = {"seq": commit.seq, "at": at.isoformat(timespec="milliseconds") + "Z", "changes": listed}
    if len(commit.changes) > MOST_CHANGES:
        event["omitted"] = len(commit.changes) - MOST_CHANGES
    return event


def _change(change: Change) -> dict[str, Any]:
    told = {"kind": KINDS[change.kind], "id": change.key}
    if change.value is None:
        return {**told, "deleted": True}
    return {**told, **_what(change.value)}


def _what(value: Any) -> dict[str, Any]:
    match value:
        case LoggedUse():
            return {"used": dict(value.used)}
        case LoggedProvider():
            totals = {name: figures[0] for name, figures in value.inventories.items()}
            return {"name": value.name, "parent": value.parent, "total": totals, **_names("traits", value.traits)}
        case LoggedNode():
            return {"host": value.host, "node": value.node, "failed_builds": value.failed_builds}
        case LoggedDevices():
            pools = [{"total": each.total, "used": each.used, "device": _device(each)} for each in value.pools]
            return {"cells": len(value.cells), "pools": pools[:MOST_NAMES]}
        case LoggedService():
            return {"disabled": value.disabled, "reason": value.reason, "forced_down": value.forced_down}
        case LoggedProcess():
            return {"up": value.silent_since is None}
        case LoggedAgents():
            return _names("hosts", value.hosts)
        case LoggedAggregate():
            return {"name": value.name, "metadata": dict(value.metadata), **_names("hosts", value.hosts)}
        case LoggedGroup():
            return {"policy": value.policy, "members": sum(value.hosts.values())}
        case LoggedInstance():
            return {"host": value.host, "node": value.node, "busy": value.io, "flavor": value.flavor}
        case int():
            return {"version": value}
        case _:
            return {"metrics": dict(value)}


def _device(pool: Any) -> str:
    return f"{pool.vendor_id}:{pool.product_id}"


def _names(field: str, names: Sequence[str]) -> dict[str, Any]:
    """Return a list of names, and their number if the list is cut."""
    cut = {f"{field}_count": len(names)} if len(names) > MOST_NAMES else {}
    return {field: list(names[:MOST_NAMES]), **cut}


@dataclass(frozen=True)
class Batch:
    """Some consecutive events, shared by all clients at the same position.

    ``reached``: number of the last change-log row that was read, which may have had no changes. ``events``: (number,
    JSON) of each. ``is_reload``: the log has no longer what the client needs, so it must read all state again, and
    continue after ``reached``.
    """

    reached: int
    events: tuple[tuple[int, bytes], ...] = ()
    is_reload: bool = False

    @cached_property
    def as_stream(self) -> bytes:
        """The batch as server-sent events. Without events it is a heartbeat."""
        if self.events:
            return b"".join(b"id: %d\nevent: change\ndata: %b\n\n" % event for event in self.events)
        name = b"reload" if self.is_reload else b"heartbeat"
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (self.reached, name, orjson.dumps({"seq": self.reached}))

    @property
    def as_answer(self) -> dict[str, Any]:
        """The batch as the answer of a poll."""
        events = [orjson.Fragment(text) for _, text in self.events]
        return {"seq": self.reached, "reload": self.is_reload, "events": events}
