# SPDX-License-Identifier: Apache-2.0
"""What an agent's report does to the traits of its provider."""

import pytest

from kilonova.db import node_reports, provider_traits, providers
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database

NODE = "11111111-1111-4111-8111-111111111111"


def traits_after(sqlite: Database, present: tuple[str, ...], reported: tuple[str, ...]) -> set[str]:
    def job(tx: Transaction) -> set[str]:
        node_reports.ensure_all(tx, [node_reports.ReportedProvider(NODE, "node1", (), ("CUSTOM_A",))])
        provider = providers.get(tx.connection, NODE)
        provider_traits.replace(tx, provider, list(present))
        node_reports.ensure_all(tx, [node_reports.ReportedProvider(NODE, "node1", (), reported)])
        return {word.name for word in provider_traits.of_provider(tx.connection, provider.id)}

    return sqlite.write(job)


@pytest.mark.parametrize(
    "mine", ["CUSTOM_A", "MISC_SHARES_VIA_AGGREGATE", "STORAGE_DISK_SSD", "COMPUTE_STATUS_DISABLED"]
)
def test_traits_that_operators_set_stay(sqlite: Database, mine: str) -> None:
    assert traits_after(sqlite, (mine,), ("HW_ARCH_X86_64",)) == {mine, "HW_ARCH_X86_64"}


@pytest.mark.parametrize("gone", ["COMPUTE_NET_VIF_MODEL_E1000", "HW_CPU_X86_AESNI", "OWNER_NOVA"])
def test_a_capability_that_is_no_longer_reported_loses_its_trait(sqlite: Database, gone: str) -> None:
    assert traits_after(sqlite, (gone, "COMPUTE_NODE"), ("COMPUTE_NODE",)) == {"COMPUTE_NODE"}
