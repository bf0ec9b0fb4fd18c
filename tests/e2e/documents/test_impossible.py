# SPDX-License-Identifier: Apache-2.0
"""A server that fits no host, and Kilonova's explanation in the stock client."""

import json
from typing import ClassVar

import pytest

from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud


class TestImpossible:
    """A server that fits no host, with a different reason for each group of hosts."""

    scenario: ClassVar = "impossible"
    removed: ClassVar = {
        "compute_status_filter": ["retired1", "retired2"],
        "Placement: VCPU": ["small1", "small2", "small3"],
        "ImagePropertiesFilter": ["arm1", "arm2"],
        "AggregateInstanceExtraSpecsFilter": ["disk1", "disk2", "disk3", "disk4"],
        "AggregateMultiTenancyIsolation": ["ssd1", "ssd2"],
    }

    def test_fault_and_explanation_name_the_rules(self, stock: StockCloud) -> None:
        replay = stock.demo("impossible")
        assert replay.returncode == 0, replay.stdout + replay.stderr
        shown = stock.show("server", "show", "dream")
        assert shown["status"] == "ERROR"
        assert shown["fault"]["message"] == (
            "No valid host was found. compute_status_filter: 2 of 13 hosts, Placement: VCPU: 3 of 11 hosts, "
            "ImagePropertiesFilter: 2 of 8 hosts, AggregateInstanceExtraSpecsFilter: 4 of 6 hosts, "
            "AggregateMultiTenancyIsolation: 2 of 2 hosts"
        )
        told = stock.kilonova("explain", "dream")
        assert told.returncode == 0
        story = " ".join(told.stdout.split())
        for rule, hosts in self.removed.items():
            assert story.partition(rule)[2].partition(": ")[2].startswith(", ".join(hosts)), (rule, story)
        raw = json.loads(stock.kilonova("explain", "dream", "--json").stdout)
        (decision,) = raw["decisions"]
        assert decision["server_id"] == shown["id"]
        by_request = json.loads(stock.kilonova("explain", decision["request_id"], "--json").stdout)
        assert by_request == raw

    def test_a_member_sees_a_fault_without_host_names(self, stock: StockCloud) -> None:
        stock.do(
            "server", "create", "--flavor", "m1.xlarge", "--image", "tiny", "--max", "80", "many", cloud="kilonova-demo"
        )
        stock.places("many")
        fault = stock.show("server", "show", "many-1", cloud="kilonova-demo")["fault"]
        assert fault["message"].startswith("No valid host was found for server ")
        assert not [name for names in self.removed.values() for name in names if name in json.dumps(fault)]

    def test_what_cannot_be_explained(self, stock: StockCloud) -> None:
        unknown = stock.kilonova("explain", "nobody")
        assert (unknown.returncode, unknown.stderr) == (2, "kilonova: no server or request has the name nobody\n")
        member = stock.kilonova("explain", "nobody", "--os-cloud", "kilonova-demo")
        assert member.returncode == 1
        assert member.stderr.startswith("kilonova: Policy doesn't allow kilonova:decisions:show")
