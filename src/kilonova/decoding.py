# SPDX-License-Identifier: Apache-2.0
"""Decoding into typed values, safe in threads.

msgspec (0.22) analyses a struct or dataclass at its first use, and caches the analysis at the class before it is
complete. If a second thread uses the class meanwhile, the process ends with a segmentation fault. So the functions here
analyse each type, with all types that it contains, under a lock before its first use.

A ``msgspec.json.Decoder`` that a module creates when it is imported is as safe, for a type that is used nowhere else.
"""

import threading
from typing import TypeVar

import msgspec

T = TypeVar("T")
_lock = threading.Lock()
_analysed: set[type] = set()


def decode(data: bytes | str | msgspec.Raw, kind: type[T]) -> T:
    """Return a JSON text as a value of type ``kind``. Raises: msgspec.DecodeError."""
    return msgspec.json.decode(data, type=_ready(kind))


def convert(value: object, kind: type[T]) -> T:
    """Return a decoded JSON value as a value of type ``kind``. Raises: msgspec.ValidationError."""
    return msgspec.convert(value, _ready(kind))


def _ready(kind: type[T]) -> type[T]:
    if kind not in _analysed:
        with _lock:
            msgspec.json.Decoder(kind)
            _analysed.add(kind)
    return kind
