# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import NO_AGGREGATES, required
from tests.unit.scheduler.small_cloud import request

from kilonova.errors import RequestFilterFailed
from kilonova.scheduler.request_filters import TpmSecretSecurityFilter

SECRET = "COMPUTE_SECURITY_TPM_SECRET_SECURITY_"


@pytest.mark.parametrize(
    ("extra_specs", "properties", "expected"),
    [
        ({"hw:tpm_version": "2.0"}, {}, {f"{SECRET}USER"}),
        ({}, {"hw_tpm_version": "1.2", "hw_tpm_secret_security": "host"}, {f"{SECRET}USER"}),
        ({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "deployment"}, {}, {f"{SECRET}DEPLOYMENT"}),
        ({"hw:tpm_secret_security": "nonsense"}, {}, set()),
    ],
)
def test_a_tpm_requires_the_trait_of_its_secret_security(
    extra_specs: dict[str, str], properties: dict[str, str], expected: set[str]
) -> None:
    assert required(TpmSecretSecurityFilter(), request(extra_specs, properties)) == expected


def test_an_unknown_secret_security_is_refused() -> None:
    spec = request({"hw:tpm_version": "2.0", "hw:tpm_secret_security": "nonsense"})
    with pytest.raises(RequestFilterFailed, match="nonsense"):
        TpmSecretSecurityFilter().apply(spec, NO_AGGREGATES)
