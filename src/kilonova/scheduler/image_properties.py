# SPDX-License-Identifier: Apache-2.0
"""Reading image properties in rules: names of :mod:`kilonova.model.image_properties`, which drivers read by, too."""

from kilonova.model.image_properties import (
    canonical_architecture,
    canonical_hypervisor,
    canonical_vm_mode,
    image_property,
    image_property_names,
)

__all__ = [
    "canonical_architecture",
    "canonical_hypervisor",
    "canonical_vm_mode",
    "image_property",
    "image_property_names",
]
