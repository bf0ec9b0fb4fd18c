# SPDX-License-Identifier: Apache-2.0
"""YAML files whose fields have line numbers."""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from kilonova.errors import ConfigurationError
from kilonova.planning.forecast.scenario import ScenarioError

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")
MOST_BYTES = 64 * 2**20


def load_yaml(path: Path) -> tuple[Any, str]:
    """Return the content of a file, decoded, and its text. Raises: ConfigurationError naming the file and the line."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ConfigurationError(f"{path}: the file is larger than {MOST_BYTES // 2**20} MiB")
        text = path.read_text(encoding="utf-8")
        return yaml.safe_load(text), text
    except yaml.MarkedYAMLError as error:
        line = "" if error.problem_mark is None else f", line {error.problem_mark.line + 1}"
        raise ConfigurationError(f"{path}{line}: {error.problem or error.context}") from None
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError(f"{path}: {error or type(error).__name__}") from None


def mapping_of(path: Path, content: Any, text: str, known: Collection[str], what: str) -> dict[str, Any]:
    """Return the content of a file that must be a mapping with ``known`` fields only. Raises: ConfigurationError."""
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}: {what} must be a mapping")
    if unknown := sorted(map(str, content.keys() - known)):
        raise at_line(path, text, ScenarioError(unknown[0], f"unknown field; known fields: {', '.join(known)}"))
    return content


def at_line(path: Path, text: str, error: ScenarioError) -> ConfigurationError:
    """Return an error of a field as one that names the file and the line."""
    line = line_of(text, error.field)
    place = f"{path}" if line is None else f"{path}, line {line}"
    return ConfigurationError(f"{place}: {error.message}")


def line_of(text: str, field: str) -> int | None:
    """Return the line of a field, or of the innermost part of its path that exists; None: no part does."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    line = None
    for index, name in _STEP.findall(field):
        if isinstance(node, yaml.SequenceNode) and index and int(index) < len(node.value):
            node = node.value[int(index)]
            line = node.start_mark.line + 1
        elif isinstance(node, yaml.MappingNode) and name:
            found = next((each for each in node.value if each[0].value == name), None)
            if found is None:
                break
            line, node = found[0].start_mark.line + 1, found[1]
        else:
            break
    return line
