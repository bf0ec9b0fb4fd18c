# SPDX-License-Identifier: Apache-2.0
"""EphemeralEncryptionFilter: hosts that support encrypted ephemeral disks, if requested."""

from typing import ClassVar

from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.guest_options import guest_option, guest_option_reads, is_set
from kilonova.scheduler.reads import Reads

_ENCRYPTION = "COMPUTE_EPHEMERAL_ENCRYPTION"
_FORMATS = {name: f"{_ENCRYPTION}_{name.upper()}" for name in ("luks", "luksv2", "plain")}


@dataclass(frozen=True, slots=True)
class EphemeralEncryptionFilter:
    """Require the trait COMPUTE_EPHEMERAL_ENCRYPTION if encrypted ephemeral disks are requested.

    If an encryption format is requested too, the trait of this format is also required.

    Source: spec SCHEDULER §6 #11.
    """

    name: ClassVar[str] = "ephemeral_encryption_filter"
    reason: ClassVar[str] = "cannot encrypt local disks"
    reads: ClassVar[Reads] = guest_option_reads("ephemeral_encryption", "ephemeral_encryption_format")

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        if not is_set(spec.flavor, spec.image, "ephemeral_encryption"):
            return spec
        wanted = guest_option(spec.flavor, spec.image, "ephemeral_encryption_format")
        of_format = _FORMATS.get(wanted or "")
        return spec.requiring(_ENCRYPTION, *([of_format] if of_format else []))
