# SPDX-License-Identifier: Apache-2.0
"""Compiled statements, shared by all engines of a process: SQLAlchemy would compile each once for every engine.

A process has several engines: for readers, for itself and for its writer.
"""

from collections.abc import Iterator, MutableMapping
from typing import Any

#: More than the code has; statements that are put together from what is asked for make up the rest.
_MOST = 4_000


class CompiledStatements(MutableMapping[Any, Any]):
    """What SQLAlchemy takes for its ``compiled_cache``. Its keys begin with the dialect, which each engine has anew."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._compiled: dict[Any, Any] = {}

    def __getitem__(self, key: Any) -> Any:
        return self._compiled[_shared(key)]

    def __setitem__(self, key: Any, compiled: Any) -> None:
        if len(self._compiled) >= self._most:
            self._compiled.clear()
        self._compiled[_shared(key)] = compiled

    def __delitem__(self, key: Any) -> None:
        del self._compiled[_shared(key)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._compiled)

    def __len__(self) -> int:
        return len(self._compiled)

    def get(self, key: Any, default: Any = None) -> Any:
        return self._compiled.get(_shared(key), default)


def _shared(key: Any) -> Any:
    """Return the key of a statement for any engine whose dialect compiles it alike."""
    dialect, *rest = key
    version = getattr(dialect, "server_version_info", None)
    return (dialect.name, dialect.driver, version, getattr(dialect, "is_mariadb", False), *rest)


SHARED = CompiledStatements()
