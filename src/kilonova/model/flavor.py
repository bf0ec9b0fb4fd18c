# SPDX-License-Identifier: Apache-2.0
"""Flavors. An instance keeps its own copy, so later changes of the flavor do not affect the instance."""

from collections.abc import Mapping
from dataclasses import field
from datetime import datetime

from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class Flavor:
    """A flavor with its extra specs.

    Units: ``memory_mib`` MiB, ``swap_mib`` MiB, ``root_gib`` and ``ephemeral_gib`` GiB.
    Source: compute API, flavors; ``flavor_id`` is the public id (any string), ``name`` is unique.
    """

    flavor_id: str
    name: str
    vcpus: int
    memory_mib: int
    root_gib: int
    ephemeral_gib: int = 0
    swap_mib: int = 0
    rxtx_factor: float = 1.0
    is_public: bool = True
    disabled: bool = False
    description: str | None = None
    extra_specs: Mapping[str, str] = field(default_factory=dict)
    created_at: datetime | None = None
    updated_at: datetime | None = None

    def may_become(self, other: "Flavor") -> bool:
        """Tell whether a server can be resized to ``other``: a different flavor whose root disk is not smaller."""
        return other.flavor_id != self.flavor_id and other.root_gib >= self.root_gib
