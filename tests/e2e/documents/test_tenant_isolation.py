# SPDX-License-Identifier: Apache-2.0
"""Tenant isolation from Nova's scheduler guide, executed with the stock client."""

from typing import ClassVar

import pytest

from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud


class TestTenants:
    """The guide's tenant isolation: metadata key with a suffix, with the Placement prefilter and with the filter."""

    scenario: ClassVar = "tenant-isolation"

    def test_the_project_of_filter_tenant_id3_has_its_hosts_for_itself(self, stock: StockCloud) -> None:
        made = stock.show("--os-compute-api-version=2.53", "aggregate", "create", "myagg")
        assert made["uuid"]
        for host in ("node1", "node2"):
            stock.do("--os-compute-api-version=2.53", "aggregate", "add", "host", "myagg", host)
        projects = stock.do("project", "list", "-f", "value")
        demo = next(line.split()[0] for line in projects.splitlines() if line.endswith(" demo"))
        stock.do("aggregate", "set", "--property", f"filter_tenant_id3={demo}", "myagg")
        stock.do(
            "server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--max", "4", "theirs", cloud="kilonova-demo"
        )
        stock.do("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--max", "4", "others")
        assert set(stock.places("theirs").values()) == {"node1", "node2"}
        assert set(stock.places("others").values()) == {"node3", "node4"}
        why = stock.kilonova("explain", "theirs-1")
        assert "require_tenant_aggregate" in why.stdout
        assert "2 hosts, not in an aggregate of the project: node3, node4" in why.stdout
