# SPDX-License-Identifier: Apache-2.0
"""Direct use of Placement: the client's `resource provider`, `resource class`, `trait` and `allocation` commands."""

from typing import ClassVar

import pytest

from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud

NEWEST = "--os-placement-api-version=1.39"
CONSUMER = "2c0f3c3a-6a1e-4a8e-8a63-0d0f4d4dbe01"
PROJECT, USER = "--project-id=a-project", "--user-id=a-user"


def amounts(listed: list[dict[str, object]]) -> dict[object, object]:
    return {each["resource_class"]: each["usage"] for each in listed}


class TestPlacementByHand:
    """A rack provider with a card as child, a shared storage provider, and a consumer of all of them."""

    scenario: ClassVar = "zones"

    def test_a_walk_through_every_kind_of_command(self, stock: StockCloud) -> None:
        rack = stock.show(NEWEST, "resource", "provider", "create", "räck 1")
        assert (rack["name"], rack["generation"], rack["parent_provider_uuid"]) == ("räck 1", 0, None)
        card = stock.show(NEWEST, "resource", "provider", "create", "card", "--parent-provider", rack["uuid"])
        assert (card["parent_provider_uuid"], card["root_provider_uuid"]) == (rack["uuid"], rack["uuid"])
        stock.together(
            (NEWEST, "resource", "class", "create", "CUSTOM_CARD"),
            (NEWEST, "trait", "create", "CUSTOM_FAST"),
        )

        self.inventories_and_traits(stock, rack["uuid"], card["uuid"])
        self.candidates(stock, rack["uuid"], card["uuid"])
        self.allocations(stock, rack["uuid"], card["uuid"])

        assert "409" in stock.refused(NEWEST, "resource", "provider", "delete", rack["uuid"], cloud="kilonova")
        stock.do(NEWEST, "resource", "provider", "delete", card["uuid"])
        stock.do(NEWEST, "resource", "provider", "delete", rack["uuid"])
        stock.together(
            (NEWEST, "trait", "delete", "CUSTOM_FAST"), (NEWEST, "resource", "class", "delete", "CUSTOM_CARD")
        )
        left, classes = stock.shown_together(
            (NEWEST, "resource", "provider", "list"), (NEWEST, "resource", "class", "list")
        )
        assert not {"räck 1", "card"} & {each["name"] for each in left}
        assert "CUSTOM_CARD" not in {each["name"] for each in classes}

    def inventories_and_traits(self, stock: StockCloud, rack: str, card: str) -> None:
        whole = ("--resource", "VCPU=16", "--resource", "VCPU:allocation_ratio=2.0", "--resource", "MEMORY_MB=8192")
        stock.do(NEWEST, "resource", "provider", "inventory", "set", rack, *whole)
        stock.together(
            (NEWEST, "resource", "provider", "inventory", "set", card, "--resource", "CUSTOM_CARD=2"),
            (
                NEWEST,
                "resource",
                "provider",
                "trait",
                "set",
                "--trait",
                "CUSTOM_FAST",
                "--trait",
                "HW_CPU_X86_AVX",
                rack,
            ),
        )
        amend = ("--resource", "MEMORY_MB:reserved=1024")
        shown = stock.show(NEWEST, "resource", "provider", "inventory", "set", rack, "--amend", *amend)
        facts = {each["resource_class"]: (each["total"], each["reserved"], each["allocation_ratio"]) for each in shown}
        assert facts == {"VCPU": (16, 0, 2.0), "MEMORY_MB": (8192, 1024, 1.0)}
        traits, found = stock.shown_together(
            (NEWEST, "resource", "provider", "trait", "list", rack),
            (NEWEST, "resource", "provider", "list", "--required", "CUSTOM_FAST", "--resource", "VCPU=32"),
        )
        assert {each["name"] for each in traits} == {"CUSTOM_FAST", "HW_CPU_X86_AVX"}
        assert [each["uuid"] for each in found] == [rack]
        in_tree, trait = stock.shown_together(
            (NEWEST, "resource", "provider", "list", "--in-tree", card),
            (NEWEST, "trait", "show", "CUSTOM_FAST"),
        )
        assert {each["uuid"] for each in in_tree} == {rack, card}
        assert trait == {"name": "CUSTOM_FAST"}

    def candidates(self, stock: StockCloud, rack: str, card: str) -> None:
        asked = ("--resource", "VCPU=4", "--required", "CUSTOM_FAST", "--group", "1", "--resource", "CUSTOM_CARD=1")
        fitting, none = stock.shown_together(
            (NEWEST, "allocation", "candidate", "list", *asked),
            (
                NEWEST,
                "allocation",
                "candidate",
                "list",
                "--resource",
                "VCPU=4",
                "--forbidden",
                "HW_CPU_X86_AVX",
                "--required",
                "CUSTOM_FAST",
            ),
        )
        assert {(each["resource provider"], each["allocation"]) for each in fitting} == {
            (rack, "VCPU=4"),
            (card, "CUSTOM_CARD=1"),
        }
        assert none == []

    def allocations(self, stock: StockCloud, rack: str, card: str) -> None:
        wanted = ("--allocation", f"rp={rack},VCPU=4,MEMORY_MB=512", "--allocation", f"rp={card},CUSTOM_CARD=1")
        owner = (PROJECT, USER, "--consumer-type=INSTANCE")
        stock.do(NEWEST, "resource", "provider", "allocation", "set", CONSUMER, *wanted, *owner)
        allocated, used, of_project = stock.shown_together(
            (NEWEST, "resource", "provider", "allocation", "show", CONSUMER),
            (NEWEST, "resource", "provider", "usage", "show", rack),
            (NEWEST, "resource", "usage", "show", "a-project"),
        )
        assert {each["resource_provider"]: each["resources"] for each in allocated} == {
            rack: {"VCPU": 4, "MEMORY_MB": 512},
            card: {"CUSTOM_CARD": 1},
        }
        assert amounts(used) == {"VCPU": 4, "MEMORY_MB": 512}
        assert amounts(of_project) == {"INSTANCE": {"consumer_count": 1, "VCPU": 4, "MEMORY_MB": 512, "CUSTOM_CARD": 1}}
        too_much = ("--allocation", f"rp={card},CUSTOM_CARD=3")
        complaint = stock.refused(
            NEWEST, "resource", "provider", "allocation", "set", CONSUMER, *too_much, *owner, cloud="kilonova"
        )
        assert "409" in complaint
        kept = stock.show(NEWEST, "resource", "provider", "show", card, "--allocations")
        assert kept["allocations"][CONSUMER]["resources"] == {"CUSTOM_CARD": 1}
        stock.do(NEWEST, "resource", "provider", "allocation", "unset", CONSUMER, "--provider", card)
        left = stock.show(NEWEST, "resource", "provider", "allocation", "show", CONSUMER)
        assert [each["resource_provider"] for each in left] == [rack]
        stock.do(NEWEST, "resource", "provider", "allocation", "delete", CONSUMER)

    def test_a_plain_member_may_not(self, stock: StockCloud) -> None:
        assert "403" in stock.refused(NEWEST, "resource", "provider", "list")
