# SPDX-License-Identifier: Apache-2.0
"""A network client with a short-lived cache of networks, subnets, names of security groups, quotas and extensions.

Cached are the results of list requests with a filter for ids, and quotas without a limit of ports, both separately for
each token. A network without subnets is not cached, because its user is probably about to create a subnet. Threads that
need the same resource at the same time share one request.
"""

import threading
import time
from collections.abc import Callable, Hashable, Mapping, Sequence

from cachetools import TTLCache

from kilonova import deadline
from kilonova.network.client import NetworkClient, Resource
from kilonova.network.forwarding_client import ForwardingClient
from kilonova.network.port_quota import has_no_port_limit

_KINDS = frozenset({"networks", "subnets", "security-groups"})
#: Attributes of security groups that are cached.
_NAMES = (("id", "name"), ["id", "name"])
_KEPT_S = 5.0
_KEPT_RESOURCES = 4096
#: Interval in seconds at which a thread that waits for another one looks at its deadline.
_LOOK_S = 0.1
_Key = tuple[str, str | None, Hashable, str]


class CachedClient(ForwardingClient):
    """A client that caches responses. Thread-safe; no request is sent under its lock.

    ``extensions_s``: seconds for which the list of extensions is kept.
    """

    def __init__(
        self, client: NetworkClient, *, extensions_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(client)
        self._lock = threading.Lock()
        #: Key of a resource that a thread is fetching → set when that ends.
        self._running: dict[_Key, threading.Event] = {}
        self._kept: TTLCache[_Key, Resource] = TTLCache(_KEPT_RESOURCES, _KEPT_S, timer=clock)
        self._quotas: TTLCache[tuple[str | None, str], Resource] = TTLCache(_KEPT_RESOURCES, _KEPT_S, timer=clock)
        self._extensions: TTLCache[str | None, Sequence[Resource]] = TTLCache(1, extensions_s, timer=clock)

    def list(self, kind: str, *, token: str | None = None, **filters: object) -> Sequence[Resource]:
        if kind == "extensions" and not filters:
            return self._list_extensions()
        ids = filters.get("id")
        if not isinstance(ids, list | tuple) or not _is_remembered(kind, filters):
            return super().list(kind, token=token, **filters)
        fields = _hashable(filters.get("fields"))
        keys = {each: (kind, token, fields, each) for each in ids}

        def fetch(missing: Sequence[str]) -> dict[str, Resource]:
            fresh = {each["id"]: each for each in self._client.list(kind, token=token, **{**filters, "id": missing})}
            with self._lock:
                for each, resource in fresh.items():
                    if kind != "networks" or resource.get("subnets"):
                        self._kept[keys.get(each, (kind, token, fields, each))] = resource
            return fresh

        found = self._found(keys, fetch)
        return [found[each] for each in keys if each in found]

    def _found(
        self, keys: Mapping[str, _Key], fetch: Callable[[Sequence[str]], dict[str, Resource]]
    ) -> dict[str, Resource]:
        """Return the resources that are cached, and fetch the others. ``keys``: id → key in the cache.

        A resource that another thread is fetching is awaited, and fetched here only if it is then not in the cache.
        """
        is_over = threading.Event()
        with self._lock:
            found = self._cached(keys)
            missing = [each for each in keys if each not in found]
            running = {each: over for each in missing if (over := self._running.get(keys[each]))}
            mine = [each for each in missing if each not in running]
            self._running |= {keys[each]: is_over for each in mine}
        try:
            if mine:
                found |= fetch(mine)
        finally:
            with self._lock:
                for each in mine:
                    del self._running[keys[each]]
            is_over.set()
        if running:
            for over in set(running.values()):
                while not over.wait(_LOOK_S):
                    deadline.check()
            with self._lock:
                found |= self._cached({each: keys[each] for each in running})
            if left := [each for each in running if each not in found]:
                found |= fetch(left)
        return found

    def _cached(self, keys: Mapping[str, _Key]) -> dict[str, Resource]:
        return {each: kept for each, key in keys.items() if (kept := self._kept.get(key)) is not None}

    def call(self, method: str, path: str, body: Resource | None = None, *, token: str | None = None) -> Resource:
        if method != "GET" or not path.startswith("/quotas/"):
            return super().call(method, path, body, token=token)
        with self._lock:
            kept = self._quotas.get((token, path))
        if kept is None:
            kept = self._client.call(method, path, body, token=token)
            if has_no_port_limit(kept["quota"]):
                with self._lock:
                    self._quotas[token, path] = kept
        return kept

    def _list_extensions(self) -> Sequence[Resource]:
        """Return the extensions, which are the same for all users."""
        with self._lock:
            kept = self._extensions.get(None)
        if kept is None:
            kept = self._client.list("extensions")
            with self._lock:
                self._extensions[None] = kept
        return kept


def _is_remembered(kind: str, filters: Mapping[str, object]) -> bool:
    """Whether the result of a list request is cached. Rules of security groups are never cached."""
    if kind not in _KINDS or not filters.keys() <= {"id", "fields"}:
        return False
    return kind != "security-groups" or filters.get("fields") in _NAMES


def _hashable(fields: object) -> Hashable:
    return tuple(fields) if isinstance(fields, Sequence | set | frozenset) else str(fields)
