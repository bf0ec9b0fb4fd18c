# SPDX-License-Identifier: Apache-2.0
"""Typed request bodies: conversion of a body that passed its JSON Schema into a struct.

A struct has a field for each property that a handler reads. A struct is the same for all microversions: the
schema refuses properties that do not exist in the request's microversion, so the fields of these properties keep their
defaults.
"""

from typing import TypeVar

from kilonova.decoding import convert

Struct = TypeVar("Struct")
#: A number of JSON Schema's type ``integer``. That type includes 1.0, which Python decodes as a float.
Whole = int | float
#: A boolean, or a string that Nova accepts as a boolean; see :func:`kilonova.api.schemas.types.as_bool`.
Flag = bool | str


def read_typed(kind: type[Struct], value: object) -> Struct:
    """Convert ``value``, a decoded JSON value that passed its schema, into a struct of type ``kind``."""
    return convert(value, kind)
