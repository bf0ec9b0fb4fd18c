# SPDX-License-Identifier: Apache-2.0
"""A network client that creates the ports of several servers by one request, while earlier requests are running.

::

    server 1 ── POST {"port": …} ────────────────┐ running
    server 2 ──┐                                 │
    server 3 ──┼─ wait ──────────────────────────┴─▶ POST {"ports": [2, 3, 4]}
    server 4 ──┘

A port that is requested alone is sent at once. So one server takes as long as before, and the servers of a big request
take less of the network service's time.
"""

import threading
from collections import deque
from collections.abc import Sequence

from kilonova.errors import KilonovaError, Unavailable
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.forwarding_client import ForwardingClient
from kilonova.records import dataclass

#: Maximum number of running requests, and of ports in one request, which limits the duration of a request.
_REQUESTS, _PORTS = 2, 8
_INCOMPLETE = "The response of the network service lacks a port."


@dataclass(slots=True, eq=False)
class _Wanted:
    """A port to create. ``outcome``: the port, or the exception for it; None until there is an answer."""

    values: Resource
    is_taken: bool = False
    outcome: Resource | BaseException | None = None


class GroupedPorts(ForwardingClient):
    """A client that creates several ports by one request. Thread-safe; no request is sent under its lock.

    Only ports that Kilonova's own user creates for servers are grouped, at most one of each server. If a request for
    several ports is refused, none of them was created, and each is requested alone, so that each server gets its own
    error. If the outcome of the request is unknown, all servers get this error.
    """

    def __init__(self, client: NetworkClient) -> None:
        super().__init__(client)
        self._changed = threading.Condition()
        self._waiting: deque[_Wanted] = deque()
        self._free = _REQUESTS

    def create(self, kind: str, values: Resource, *, token: str | None = None) -> Resource:
        if kind != "ports" or token is not None or not values.get("device_id"):
            return super().create(kind, values, token=token)
        wanted = _Wanted(values)
        with self._changed:
            self._waiting.append(wanted)
            self._changed.wait_for(lambda: wanted.outcome is not None or (self._free and not wanted.is_taken))
            group = () if wanted.outcome is not None else self._taken_with(wanted)
        if group:
            self._send(group)
        if isinstance(wanted.outcome, BaseException):
            raise wanted.outcome
        assert wanted.outcome is not None
        return wanted.outcome

    def _taken_with(self, first: _Wanted) -> Sequence[_Wanted]:
        """Take a port and others from the queue, the oldest first."""
        self._free -= 1
        self._waiting.remove(first)
        group, devices = [first], {first.values["device_id"]}
        for each in list(self._waiting):
            if len(group) < _PORTS and each.values["device_id"] not in devices:
                self._waiting.remove(each)
                group.append(each)
                devices.add(each.values["device_id"])
        for each in group:
            each.is_taken = True
        return group

    def _send(self, group: Sequence[_Wanted]) -> None:
        """Create the ports of a group, and wake the threads that wait for them."""
        outcomes: Sequence[Resource | BaseException] = [Unavailable("The request was interrupted.")] * len(group)
        try:
            outcomes = self._created(group)
        finally:
            with self._changed:
                for each, outcome in zip(group, outcomes, strict=True):
                    each.outcome = outcome
                self._free += 1
                self._changed.notify_all()

    def _created(self, group: Sequence[_Wanted]) -> Sequence[Resource | BaseException]:
        if len(group) > 1:
            try:
                answer = self._client.call("POST", "/ports", {"ports": [each.values for each in group]})
            except Unavailable as error:
                return [_copy(error) for _ in group]
            except KilonovaError:
                pass
            else:
                ports = {port["device_id"]: port for port in answer.get("ports", ())}
                return [ports.get(each.values["device_id"]) or Unavailable(_INCOMPLETE) for each in group]
        return [self._alone(each) for each in group]

    def _alone(self, wanted: _Wanted) -> Resource | BaseException:
        try:
            return self._client.create("ports", wanted.values)
        except Exception as error:  # noqa: BLE001 - raised in the thread that wants the port
            return error


def _copy(error: Unavailable) -> Unavailable:
    """Return an exception that another thread can raise."""
    copy = Unavailable(error.message, **error.fields)
    copy.__cause__ = error
    return copy
