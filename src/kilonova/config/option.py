# SPDX-License-Identifier: Apache-2.0
"""Options of configuration files.

An option has the name, type and default of the dataclass field that holds its value.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args, get_origin

from oslo_config import cfg

from kilonova.records import dataclass

_KINDS: dict[Any, type[cfg.Opt]] = {int: cfg.IntOpt, float: cfg.FloatOpt, bool: cfg.BoolOpt, str: cfg.StrOpt}
#: Field types whose constructor accepts the option's text. Tuples and the types in ``_KINDS`` are converted, too; every
#: other type needs ``Option.read``.
_OF_TEXT = frozenset({Path})


@dataclass(frozen=True, slots=True)
class Option:
    """The properties of a field's option that do not follow from the field's name and type.

    ``name``, ``group``: set if they differ from the field's name and the section's group. ``former``: deprecated
    (group, name) pairs that are still read. ``repeats``: whether each value of a tuple has a line of its own. ``read``:
    converts the option's value to the field's value. The text of a ValueError of ``read`` is shown after
    "[group] name: ".
    """

    help: str | None = None
    name: str | None = None
    group: str | None = None
    min: float | None = None
    max: float | None = None
    choices: tuple[str, ...] = ()
    secret: bool = False
    former: tuple[tuple[str, str], ...] = ()
    repeats: bool = False
    read: Callable[[Any], Any] | None = None

    def to_oslo(self, field: str, hint: Any, default: Any) -> cfg.Opt:
        """Return the oslo.config option for a field. ``hint``: type of the field; ``default``: its default."""
        common: dict[str, Any] = {
            "help": self.help,
            "secret": self.secret,
            "deprecated_opts": [cfg.DeprecatedOpt(name, group=group) for group, name in self.former],
        }
        name = self.name or field
        if get_origin(hint) is tuple:
            many = cfg.MultiStrOpt if self.repeats else cfg.ListOpt
            return many(name, default=list(default or ()), **common)
        bounds: dict[str, Any] = {
            key: value for key, value in (("min", self.min), ("max", self.max)) if value is not None
        }
        if self.choices:
            bounds["choices"] = list(self.choices)
        kind = _KINDS.get(bare_type(hint))
        if kind is None:  # an option of another type is declared as text and parsed later
            return cfg.StrOpt(name, default=None if default is None else str(default), **common, **bounds)
        return kind(name, default=default, **common, **bounds)

    def to_field(self, value: Any, hint: Any) -> Any:
        """Convert an option's value to the value of a field with the type ``hint``. Raises: ValueError."""
        if isinstance(value, list):
            return tuple(value)
        if value is None or (value == "" and bare_type(hint) in _OF_TEXT):
            return None
        if self.read is not None:
            return self.read(value)
        return bare_type(hint)(value) if bare_type(hint) in _OF_TEXT else value


def bare_type(hint: Any) -> Any:
    """Return ``hint`` without ``| None``, such as int for ``int | None``."""
    kinds = [part for part in get_args(hint) or (hint,) if part is not type(None)]
    return kinds[0] if len(kinds) == 1 else hint


def is_option_type(hint: Any) -> bool:
    """Whether a plug-in's field of this type can be set in a configuration file."""
    if get_origin(hint) is tuple:
        return get_args(hint) == (str, ...)
    return bare_type(hint) in _KINDS
