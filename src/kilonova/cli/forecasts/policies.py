# SPDX-License-Identifier: Apache-2.0
"""Files of policies that a forecast compares."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kilonova.cli.forecasts.lines import at_line, load_yaml, mapping_of
from kilonova.errors import ConfigurationError
from kilonova.planning.forecast.scenario import ScenarioError
from kilonova.records import dataclass

#: Sections whose options a policy of the present cloud may change.
_MAIN = "filter_scheduler"
_OF_RULES = (_MAIN, "scheduler", "metrics", "pci")


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A policy. ``options``: section → option → value."""

    path: Path
    name: str
    options: Mapping[str, Mapping[str, Any]]

    def of_present_cloud(self) -> dict[str, Any]:
        """Return the policy as the operator API takes it. Raises: ConfigurationError."""
        if unknown := sorted(self.options.keys() - set(_OF_RULES)):
            text = f"{self.path}: options: a forecast of the present cloud cannot change the section {unknown[0]}"
            raise ConfigurationError(text)
        flat = {
            name if section == _MAIN else f"{section}.{name}": _text(value)
            for section, options in self.options.items()
            for name, value in options.items()
        }
        return {"name": self.name, "options": flat}


def load_policy(path: Path) -> PolicyFile:
    """Read a policy. Raises: ConfigurationError naming the file, the line and the field."""
    found, text = load_yaml(path)
    content = mapping_of(path, found, text, ("name", "options"), "a policy")
    options = content.get("options", {})
    if not isinstance(options, dict) or not all(isinstance(each, dict) for each in options.values()):
        raise at_line(path, text, ScenarioError("options", "must be a mapping of sections to options"))
    return PolicyFile(path, str(content.get("name", path.stem)), options)


def _text(value: Any) -> str:
    """Return a value as in a configuration file."""
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
