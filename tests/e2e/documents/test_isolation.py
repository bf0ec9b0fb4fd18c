# SPDX-License-Identifier: Apache-2.0
"""The article on Trove hosts with an isolation rule instead of a filter, with the stock client."""

import json
from pathlib import Path
from typing import ClassVar

import pytest

from e2e.commands import server_create
from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud


class TestIsolation:
    """The article on Trove hosts with an isolation rule, which meets the requirements that a filter could not."""

    scenario: ClassVar = "isolation"

    def test_only_trove_servers_on_trove_hosts_and_nowhere_else(self, stock: StockCloud, tmp_path: Path) -> None:
        stock.do("aggregate", "create", "Trove")
        stock.do("aggregate", "add", "host", "Trove", "compute3")
        complaint = stock.refused(
            "aggregate", "set", "--property", "kilonova:only=image:tesora_edition", "Trove", cloud="kilonova"
        )
        assert "kilonova:only: cannot read a condition at 'image:tesora_edition'" in complaint
        stock.do("aggregate", "set", "--property", "kilonova:only=image.tesora_edition", "Trove")
        disk = tmp_path / "disk.raw"
        disk.write_bytes(b"\0" * 4096)
        upload = ("image", "create", "--disk-format", "raw", "--file", str(disk))
        stock.do(*upload, "--public", "--property", "tesora_edition=enterprise", "cirros-tagged")
        # image owned by a customer, which the administrator cannot tag
        stock.do(*upload, "cirros-no-tags", cloud="kilonova-demo")
        many = ("--min", "3", "--max", "3")
        stock.do(*server_create("tagged", image="cirros-tagged"), *many)
        stock.do(*server_create("untagged", image="cirros-no-tags"), *many, cloud="kilonova-demo")
        stock.do(*server_create("forced"), "--availability-zone", "nova:compute3")
        assert list(stock.places("tagged").values()) == ["compute3"] * 3
        untagged = stock.places("untagged")
        assert len(untagged) == 3
        assert set(untagged.values()) == {"compute1", "compute2"}
        assert stock.places("forced") == {"forced": "ERROR"}

        audit = stock.kilonova("audit", "isolation")
        assert audit.returncode == 0, audit.stdout + audit.stderr
        assert "Nothing leaks." in audit.stdout
        report = json.loads(stock.kilonova("audit", "isolation", "--json").stdout)["isolation"]
        (pool,) = report["pools"]
        assert (pool["aggregates"], pool["hosts"]) == (["Trove"], ["compute3"])
        assert {image for group in pool["may_enter"] for image in group["images"]} == {"cirros-tagged"}
        assert report["open_hosts"] == ["compute1", "compute2"]
        assert report["examined"]["images"] >= 3  # the audit includes the customer's private image
        assert report["examined"]["servers"] == 6

        read = stock.kilonova("audit", "rules")
        assert read.returncode == 0, read.stdout + read.stderr
        assert "Every property is read by a rule." in read.stdout
        stock.do("image", "set", "--property", "tesora_editon=enterprise", "cirros-tagged")
        read = stock.kilonova("audit", "rules")
        assert read.returncode == 1
        assert "Not read: image cirros-tagged has tesora_editon; nothing reads it" in read.stdout

        stock.do("aggregate", "unset", "--property", "kilonova:only", "Trove")
        stock.do("aggregate", "set", "--property", "kilonova:only.flavors=flavor=m1.tiny", "Trove")
        moved = stock.kilonova("audit", "isolation")
        assert moved.returncode == 1
        assert "leak: stray" in moved.stdout
