# SPDX-License-Identifier: Apache-2.0
"""Quotas with the stock client: set, reached, shown, released, and reset to the defaults."""

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud

DEMO = "kilonova-demo"
BOOT = ("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--wait")


def limits_shown(stock: StockCloud, *words: str) -> dict[str, int]:
    return {each["Resource"]: each["Limit"] for each in stock.show("quota", "show", "--compute", *words)}


def usage_shown(stock: StockCloud) -> dict[str, tuple[int, int, int]]:
    """Return limit, in use and reserved of servers, cores and RAM from `quota show --usage`."""
    rows = {each["Resource"]: each for each in stock.show("quota", "show", "--usage", "--compute", "demo")}
    return {
        name: (rows[name]["Limit"], rows[name]["In Use"], rows[name]["Reserved"])
        for name in ("instances", "cores", "ram")
    }


def absolute_shown(stock: StockCloud) -> dict[str, Any]:
    return {each["Name"]: each["Value"] for each in stock.show("limits", "show", "--absolute", cloud=DEMO)}


class TestQuotas:
    """Quotas of the project ``demo``, which may have two servers."""

    scenario: ClassVar = "zones"

    @pytest.fixture(autouse=True)
    def _leave_nothing(self, stock: StockCloud) -> Iterator[None]:
        yield
        stock.do("quota", "delete", "demo")
        if left := stock.show("server", "list", cloud=DEMO):
            stock.do("server", "delete", "--wait", *(each["ID"] for each in left), cloud=DEMO)

    def test_a_project_is_kept_to_its_limits_and_told_what_is_short(self, stock: StockCloud) -> None:
        assert {limits_shown(stock, "demo")[name] for name in ("instances", "cores", "ram")} == {-1}
        stock.do("quota", "set", "--instances", "2", "--cores", "3", "--ram", "1536", "demo")
        shown = limits_shown(stock, "demo")
        assert (shown["instances"], shown["cores"], shown["ram"]) == (2, 3, 1536)
        for name in ("one", "two"):
            assert stock.show(*BOOT, name, cloud=DEMO)["status"] == "ACTIVE"

        said = stock.refused(*BOOT, "three")
        assert "Quota exceeded for instances: Requested 1, but already used 2 of 2 instances" in said
        assert "403" in said
        assert {each["Name"] for each in stock.show("server", "list", cloud=DEMO)} == {"one", "two"}
        assert usage_shown(stock) == {"instances": (2, 2, 0), "cores": (3, 2, 0), "ram": (1536, 1024, 0)}
        absolute = absolute_shown(stock)
        assert (absolute["instances"], absolute["instances_used"]) == (2, 2)
        assert (absolute["total_cores"], absolute["total_cores_used"]) == (3, 2)
        assert (absolute["total_ram"], absolute["total_ram_used"]) == (1536, 1024)

        stock.do("server", "delete", "--wait", "one", cloud=DEMO)
        assert absolute_shown(stock)["instances_used"] == 1
        assert "Requested 2, but already used 1 of 2 instances" in stock.refused(
            *BOOT, "--min", "2", "--max", "2", "pair"
        )
        assert stock.show(*BOOT, "three", cloud=DEMO)["status"] == "ACTIVE"

    def test_a_limit_below_what_is_used_needs_force_and_takes_nothing_away(self, stock: StockCloud) -> None:
        stock.do(*BOOT, "--min", "2", "--max", "2", "kept", cloud=DEMO)
        said = stock.refused("quota", "set", "--instances", "1", "demo", cloud="kilonova")
        assert "400" in said
        assert "instances" in said
        assert limits_shown(stock, "demo")["instances"] == -1
        stock.do("quota", "set", "--force", "--instances", "1", "demo")
        assert usage_shown(stock)["instances"] == (1, 2, 0)
        assert len(stock.show("server", "list", cloud=DEMO)) == 2
        assert "already used 2 of 1 instances" in stock.refused(*BOOT, "more")

    def test_a_class_limits_every_project_that_has_no_limits_of_its_own(self, stock: StockCloud) -> None:
        try:
            stock.do("quota", "set", "--class", "--instances", "0", "default")
            assert limits_shown(stock, "--default")["instances"] == 0
            assert "already used 0 of 0 instances" in stock.refused(*BOOT, "none")
            stock.do("quota", "set", "--instances", "1", "demo")
            assert stock.show(*BOOT, "one", cloud=DEMO)["status"] == "ACTIVE"
        finally:
            stock.do("quota", "set", "--class", "--instances", "-1", "default")

    def test_a_plain_member_sees_own_limits_and_changes_none(self, stock: StockCloud) -> None:
        assert limits_shown(stock, "demo") == limits_shown(stock)
        assert "403" in stock.refused("quota", "set", "--instances", "100", "demo")
