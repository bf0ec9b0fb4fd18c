# SPDX-License-Identifier: Apache-2.0
"""ImagePropertiesFilter: hosts that support the image's architecture, hypervisor type and vm mode."""

import operator
import re
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import ClassVar, Self

import numpy as np

from kilonova.model.host import Capabilities
from kilonova.model.image_properties import (
    canonical_architecture,
    canonical_hypervisor,
    canonical_vm_mode,
    image_property,
)
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.depends_on import DependsOn
from kilonova.scheduler.host_table import BoolArray, HostTable
from kilonova.scheduler.reads import Reads, names
from kilonova.scheduler.settings import SchedulerConfig

_PREDICATE = re.compile(r"\s*(<=|>=|==|!=|<|>)\s*(\d+(?:\.\d+)*)\s*")
_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    ">": operator.gt,
}
_THOUSAND = 1000


@dataclass(frozen=True, slots=True)
class ImagePropertiesFilter:
    """Keep hosts that support the image's architecture, hypervisor type and vm mode together.

    A host reports the supported (architecture, hypervisor type, vm mode) triples; one triple must have all values that
    the image sets. If the image sets at least one of the three, ``img_hv_requested_version`` (``>=6.0, <7.0``) and
    ``hw_maxphysaddr_bits`` must match too; otherwise these two properties are ignored. A host that reports no version,
    or no bits, passes the check of this property. An invalid version list matches no host.

    Source: spec SCHEDULER §3 #4.
    """

    run_once: ClassVar[bool] = True
    runs_on_rebuild: ClassVar[bool] = True
    depends_on: ClassVar[DependsOn] = DependsOn.SHARED
    reads: ClassVar[Reads] = Reads(
        properties=names(
            "hw_architecture", "img_hv_type", "hw_vm_mode", "img_hv_requested_version", "hw_maxphysaddr_bits"
        )
    )
    default_architecture: str | None = None
    reason: str = "cannot run the image's architecture, hypervisor type or vm mode"

    @classmethod
    def configured(cls, config: SchedulerConfig) -> Self:
        return cls(default_architecture=config.image_properties_default_architecture)

    def passes(self, hosts: HostTable, spec: RequestSpec) -> BoolArray:
        architecture = image_property(spec.image, "hw_architecture") or self.default_architecture
        hypervisor = image_property(spec.image, "img_hv_type")
        vm_mode = image_property(spec.image, "hw_vm_mode")
        wanted = frozenset(
            {canonical_architecture(architecture) if architecture else ""}
            | {canonical_hypervisor(hypervisor) if hypervisor else ""}
            | {canonical_vm_mode(vm_mode) if vm_mode else ""}
        ) - {""}
        if not wanted:
            return hosts.all_hosts
        versions = image_property(spec.image, "img_hv_requested_version")
        bits = image_property(spec.image, "hw_maxphysaddr_bits")

        def verdicts() -> BoolArray:
            each = np.array([_can_run(profile, wanted, versions, bits) for profile in hosts.profiles], dtype=np.bool_)
            return each[hosts.profile]

        return hosts.memo.get((ImagePropertiesFilter, wanted, versions, bits), verdicts)


def _can_run(profile: Capabilities, wanted: frozenset[str], versions: str | None, bits: str | None) -> bool:
    return (
        any(wanted <= set(triple) for triple in profile.supported_instances)
        and (versions is None or _version_fits(profile.hypervisor_version, versions))
        and (bits is None or _bits_fit(profile, bits))
    )


def _version_fits(version: int, predicates: str) -> bool:
    if not version:
        return True
    have: list[int] = []
    while version:
        version, part = divmod(version, _THOUSAND)
        have.insert(0, part)
    for predicate in predicates.split(","):
        found = _PREDICATE.fullmatch(predicate)
        if found is None:
            return False
        want = [int(part) for part in found[2].split(".")]
        difference = next((a - b for a, b in zip_longest(have, want, fillvalue=0) if a != b), 0)
        if not _COMPARE[found[1]](difference, 0):
            return False
    return True


def _bits_fit(profile: Capabilities, bits: str) -> bool:
    address = profile.cpu_info.get("maxphysaddr")
    reported = address.get("bits") if isinstance(address, Mapping) else None
    if reported is None:
        return True
    return bits.isdecimal() and int(bits) <= int(reported)
