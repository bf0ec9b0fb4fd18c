# SPDX-License-Identifier: Apache-2.0
"""Cache of compiled statements that all engines of a process share; SQLAlchemy's own cache is per engine.

A process has several engines: for the reads of requests, for reads of the process itself, and for the writer.
"""

from typing import Any

from sqlalchemy.util import LRUCache

#: Maximum number of cached statements: enough for all in the code, and for many built from query parameters.
_MOST = 2_000


class CompiledStatements(LRUCache[Any, Any]):
    """The ``compiled_cache`` of all engines.

    A key of SQLAlchemy begins with the dialect object of one engine; this cache uses the dialect's name, driver and
    server version in place of that object.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_shared(key), default)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_shared(key))

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(_shared(key), compiled)


def _shared(key: Any) -> Any:
    """Return a cache key that is equal for all engines whose dialects compile the statement to the same SQL."""
    dialect, *rest = key
    version = getattr(dialect, "server_version_info", None)
    return (dialect.name, dialect.driver, version, getattr(dialect, "is_mariadb", False), *rest)


SHARED = CompiledStatements(_MOST)
