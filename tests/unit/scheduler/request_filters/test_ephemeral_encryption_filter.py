# SPDX-License-Identifier: Apache-2.0
import pytest
from tests.unit.scheduler.request_filters.applied import required
from tests.unit.scheduler.small_cloud import request

from kilonova.scheduler.request_filters import EphemeralEncryptionFilter

ENCRYPTION = "COMPUTE_EPHEMERAL_ENCRYPTION"


@pytest.mark.parametrize(
    ("extra_specs", "properties", "expected"),
    [
        ({"hw:ephemeral_encryption": "true"}, {}, {ENCRYPTION}),
        (
            {"hw:ephemeral_encryption": "true"},
            {"hw_ephemeral_encryption_format": "luks"},
            {ENCRYPTION, f"{ENCRYPTION}_LUKS"},
        ),
        (
            {"hw:ephemeral_encryption_format": "plain"},
            {"hw_ephemeral_encryption": "1"},
            {ENCRYPTION, f"{ENCRYPTION}_PLAIN"},
        ),
        ({"hw:ephemeral_encryption_format": "luksv2"}, {}, set()),
    ],
)
def test_encryption_and_its_format_require_a_trait_each(
    extra_specs: dict[str, str], properties: dict[str, str], expected: set[str]
) -> None:
    assert required(EphemeralEncryptionFilter(), request(extra_specs, properties)) == expected
