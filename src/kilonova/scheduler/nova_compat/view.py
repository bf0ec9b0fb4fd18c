# SPDX-License-Identifier: Apache-2.0
"""Records that read like Nova's objects."""

from typing import Any


class View(dict[str, Any]):
    """A mapping whose keys are attributes as well, because Nova's objects and its older dicts are both in use."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def obj_attr_is_set(self, name: str) -> bool:
        return name in self


class Properties(View):
    """Image properties, raw. A property the image lacks reads as None when asked for as an attribute."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return super().get(name)
