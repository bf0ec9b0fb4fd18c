# SPDX-License-Identifier: Apache-2.0
"""Configuration options as the text of an oslo.config file."""

from collections.abc import Mapping
from typing import Any

from kilonova.errors import ConfigurationError

#: Section → option → value.
Sections = Mapping[str, Mapping[str, Any]]


def conf_text(sections: Sections) -> str:
    """Return the text of an INI file. For a list, each item gets a line of its own, as multi-valued options require.

    Raises: ConfigurationError for a value of more than one line.
    """
    lines: list[str] = []
    for section, options in sections.items():
        lines.append(f"[{section}]")
        for name, value in options.items():
            for item in value if isinstance(value, list | tuple) else (value,):
                text = str(item).lower() if isinstance(item, bool) else str(item)
                if "\n" in f"{name}{text}":
                    raise ConfigurationError(f"[{section}] {name} must be one line.")
                lines.append(f"{name} = {text}")
        lines.append("")
    return "\n".join(lines)


def with_defaults(sections: Sections, defaults: Sections) -> dict[str, dict[str, Any]]:
    """Return ``sections``, plus the options that only ``defaults`` has."""
    return {
        name: {**defaults.get(name, {}), **sections.get(name, {})} for name in dict.fromkeys([*sections, *defaults])
    }
