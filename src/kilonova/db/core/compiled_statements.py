# SPDX-License-Identifier: Apache-2.0
"""Compiled statements, shared by all engines of a process: SQLAlchemy would compile each once for every engine.

A process has several engines: for readers, for itself and for its writer.
"""

from typing import Any

from sqlalchemy.util import LRUCache

#: More than the code has; statements that are put together from what is asked for make up the rest.
_MOST = 2_000


class CompiledStatements(LRUCache[Any, Any]):
    """What SQLAlchemy takes for its ``compiled_cache``. Its keys begin with the dialect, which each engine has anew."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(_shared(key), default)

    def __getitem__(self, key: Any) -> Any:
        return super().__getitem__(_shared(key))

    def __setitem__(self, key: Any, compiled: Any) -> None:
        super().__setitem__(_shared(key), compiled)


def _shared(key: Any) -> Any:
    """Return the key of a statement for any engine whose dialect compiles it alike."""
    dialect, *rest = key
    version = getattr(dialect, "server_version_info", None)
    return (dialect.name, dialect.driver, version, getattr(dialect, "is_mariadb", False), *rest)


SHARED = CompiledStatements(_MOST)
