# SPDX-License-Identifier: Apache-2.0
"""Dicts with attribute access, which imitate Nova's objects."""

from typing import Any


class View(dict[str, Any]):
    """A dict whose keys are also attributes: Nova-style rules expect Nova's objects, or dicts as in older versions."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def obj_attr_is_set(self, name: str) -> bool:
        return name in self


class Properties(View):
    """The unconverted properties of an image. Access to a missing property as an attribute returns None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return super().get(name)
