# SPDX-License-Identifier: Apache-2.0
"""The document on a custom scheduler that ties networks to hosts, executed with the stock client."""

import re
from contextlib import closing
from typing import ClassVar

import pytest
import yaml

from support.forwarding import ForwardingProxy
from support.stock_cloud import StockCloud

pytestmark = pytest.mark.cloud

PLACES = {"10.1.7.9": "doc1", "10.2.0.1": "ops1", "192.0.2.7": "dev1"}


def name_cloud(stock: StockCloud, name: str, compute_url: str) -> None:
    """Add the member's cloud under a second name, with another compute endpoint."""
    file = stock.supervisor.folder / "clouds.yaml"
    content = yaml.safe_load(file.read_text())
    member = content["clouds"]["kilonova-demo"]
    content["clouds"][name] = {**member, "compute_endpoint_override": compute_url}
    file.write_text(yaml.safe_dump(content))


class TestNetworks:
    """Three networks with one proxy each."""

    scenario: ClassVar = "ip-scheduler"

    def test_servers_land_on_the_hosts_of_the_network_they_are_asked_for_from(self, stock: StockCloud) -> None:
        server = ("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--wait")
        for address, host in PLACES.items():
            with closing(ForwardingProxy(stock.supervisor.ports[0], address)) as proxy:
                name_cloud(stock, f"from-{host}", f"{proxy.url}/compute/v2.1")
                stock.do(*server, f"from-{host}", cloud=f"from-{host}")
        stock.do(*server, "direct", cloud="kilonova-demo")
        assert stock.places("from-") == {f"from-{host}": host for host in PLACES.values()}
        assert stock.places("direct") == {"direct": "dev1"}
        log = (stock.supervisor.folder / "log" / "control.log").read_text()
        ids = r"\[req-\S+ [0-9a-f]{32} [0-9a-f]{32}\]"
        for address, host in (("10.1.7.9", "doc1"), ("127.0.0.1", "dev1")):
            assert re.search(rf"DEBUG ip_scheduler {ids} Request from {address} scheduled to {host}", log)
        why = stock.kilonova("explain", "from-doc1")
        assert why.returncode == 0, why.stderr
        story = " ".join(why.stdout.split())
        removed = story.partition("2 hosts, not the host that the driver chose: ")[2]
        assert "IPScheduler" in story
        assert removed.startswith(("dev1, ops1", "ops1, dev1")), story
