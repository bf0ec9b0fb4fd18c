# SPDX-License-Identifier: Apache-2.0
"""Sections of the settings: frozen dataclasses, each field of which is annotated with an :class:`Option`.

``GROUP`` is the group in the file. A field without a default is a required option.
"""

import dataclasses
from functools import cache
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar, get_args, get_type_hints

from oslo_config import cfg

from kilonova.config.option import Option
from kilonova.errors import ConfigurationError


class Section(Protocol):
    """The attributes of every section."""

    GROUP: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]


SomeSection = TypeVar("SomeSection", bound=Section)


class Setting(NamedTuple):
    """A field of a section, and the option that its value is read from. ``hint``: the field's type."""

    field: str
    hint: Any
    option: Option
    group: str
    oslo: cfg.Opt
    required: bool


@cache
def settings_of(section: type[Section]) -> tuple[Setting, ...]:
    """Return the settings of a section."""
    hints = get_type_hints(section, include_extras=True)
    found: list[Setting] = []
    for item in dataclasses.fields(section):
        hint, option, *_ = (*get_args(hints[item.name]), None, None)
        if not isinstance(option, Option):
            continue  # the value is composed of several options
        required = item.default is dataclasses.MISSING
        oslo = option.to_oslo(item.name, hint, None if required else item.default)
        found.append(Setting(item.name, hint, option, option.group or section.GROUP, oslo, required))
    return tuple(found)


def read_section(section: type[SomeSection], conf: Any) -> SomeSection:
    """Return a section, with its values read from the configuration files.

    Raises: ConfigurationError naming the option.
    """
    values = {}
    for setting in settings_of(section):
        group, name = setting.group, setting.oslo.name
        value = value_in(conf, group, setting.oslo)
        if setting.required and not value:
            raise ConfigurationError(f"[{group}] {name} is not set.")
        try:
            values[setting.field] = setting.option.to_field(value, setting.hint)
        except ValueError as error:
            raise ConfigurationError(f"[{group}] {name}: {error}") from error
    return section(**values)


def value_in(conf: Any, group: str, option: cfg.Opt) -> Any:
    """Return the current value of an option. Raises: ValueError if $NAME in the value refers to the same option."""
    try:
        return (conf if group == "DEFAULT" else conf[group])[option.dest]
    except RecursionError:
        raise ValueError(f"[{group}] {option.name}: the $NAME in its value refers back to this option") from None
