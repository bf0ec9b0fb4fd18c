# SPDX-License-Identifier: Apache-2.0
"""TpmSecretSecurityFilter: hosts that support the requested security of the TPM secret."""

from typing import ClassVar

from kilonova.errors import RequestFilterFailed
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass
from kilonova.scheduler.aggregate_index import AggregateIndex
from kilonova.scheduler.guest_features import wants_tpm
from kilonova.scheduler.guest_options import guest_option_reads
from kilonova.scheduler.reads import Reads, names


@dataclass(frozen=True, slots=True)
class TpmSecretSecurityFilter:
    """Require the trait COMPUTE_SECURITY_TPM_SECRET_SECURITY_* for a server with a TPM.

    The flavor's ``hw:tpm_secret_security`` (default ``user``) selects the trait. Images cannot set this option, because
    the image of an existing server cannot be changed.

    Raises: RequestFilterFailed, for a value other than user, host and deployment.
    Source: spec SCHEDULER §6 #13.
    """

    name: ClassVar[str] = "tpm_secret_security_filter"
    reason: ClassVar[str] = "does not support the requested security of the TPM secret"
    reads: ClassVar[Reads] = guest_option_reads("tpm_version") | Reads(extra_specs=names("hw:tpm_secret_security"))

    def apply(self, spec: RequestSpec, aggregates: AggregateIndex) -> RequestSpec:  # noqa: ARG002
        if not wants_tpm(spec.flavor, spec.image):
            return spec
        security = spec.flavor.extra_specs.get("hw:tpm_secret_security") or "user"
        if security not in {"user", "host", "deployment"}:
            raise RequestFilterFailed(
                f"hw:tpm_secret_security must be 'user', 'host' or 'deployment', not {security!r}."
            )
        return spec.requiring(f"COMPUTE_SECURITY_TPM_SECRET_SECURITY_{security.upper()}")
