# SPDX-License-Identifier: Apache-2.0
from kilonova.model.provider import Inventory
from kilonova.placement.provider_table import ProviderRecord, build_provider_table

TREE = (
    ProviderRecord("child", "root", (Inventory("VCPU", 4),)),
    ProviderRecord("root", None, traits=frozenset({"A"}), aggregates=frozenset({"g"})),
    ProviderRecord("grandchild", "child", used={}),
)


def test_records_become_columns_in_their_order() -> None:
    table = build_provider_table(TREE)
    assert len(table) == 3
    assert table.uuids == ("child", "root", "grandchild")
    assert list(table.parent) == [1, -1, 0]
    assert list(table.root) == [1, 1, 1]
    assert table.column("VCPU") == 0
    assert table.column("VGPU") is None
    assert list(table.capacity[:, 0]) == [4, 0, 0]
    assert list(table.has_inventory[:, 0]) == [True, False, False]


def test_traits_and_aggregates_are_found_by_name() -> None:
    table = build_provider_table(TREE)
    assert list(table.has_any_trait(["A", "unknown"])) == [False, True, False]
    assert not table.has_any_trait(["unknown"]).any()
    assert list(table.in_any_aggregate(["g"])) == [False, True, False]


def test_answers_are_kept_and_their_number_is_bounded() -> None:
    table = build_provider_table(TREE)
    assert (table.remember("answer", lambda: 1), table.remember("answer", lambda: 2)) == (1, 1)
    for number in range(1000):
        table.remember(number, lambda: None)
    assert len(table.memo) < 300
    assert table.remember("answer", lambda: 3) == 3


def test_answers_about_many_providers_take_a_bounded_amount_of_memory() -> None:
    """Whoever asks for ever other amounts of a class has an answer remembered for each of them."""
    count = 100_000
    table = build_provider_table(tuple(ProviderRecord(f"p{number}", None) for number in range(count)))
    for number in range(200):
        table.remember(number, lambda: None)
        assert len(table.memo) * 8 * count <= 100 * 2**20
