# SPDX-License-Identifier: Apache-2.0
"""What dotted paths lead to. Agents use it, too, so it brings nothing."""

from importlib import import_module
from typing import Any


def at_path(path: str) -> Any:
    """Return what a dotted path leads to. Raises: ValueError, with a reason that fits into a line."""
    module_path, _, name = path.rpartition(".")
    if not module_path:
        raise ValueError("a bare name, no path")
    try:
        return getattr(import_module(module_path), name)
    except Exception as error:  # foreign code, which may do anything when it is imported
        raise ValueError(str(error) or type(error).__name__) from error
