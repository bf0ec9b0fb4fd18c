# SPDX-License-Identifier: Apache-2.0
"""The dashboard before a whole cloud: what administrators see, and what members do not."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import httpx
import pytest
import yaml

from kilonova.bundled_services.free_ports import free_ports
from support.forked_commands import ForkedCommand
from support.stock_cloud import StockCloud
from support.waiting import wait_until

pytestmark = pytest.mark.cloud

DEMO = "kilonova-demo"
_PAGES = (
    "/overview", "/hosts", "/hosts.csv", "/hosts/map", "/events", "/servers", "/servers?all=1", "/servers.json?all=1",
    "/about-me",
)  # fmt: skip
BOOT = ("server", "create", "--flavor", "m1.tiny", "--image", "tiny", "--wait")


class Visitor(httpx.Client):
    """A browser without scripts."""

    def __init__(self, url: str) -> None:
        super().__init__(base_url=url, headers={"Origin": url}, timeout=60)

    def sign_in(self, account: dict[str, Any]) -> httpx.Response:
        fields = {"user": account["username"], "password": account["password"], "domain": "Default"}
        return self.post("/sign-in", data=fields)


def _serves(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthcheck", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


class TestDashboard:
    """One server of an administrator, and one of a member."""

    scenario: ClassVar = "zones"

    @pytest.fixture
    def accounts(self, stock: StockCloud) -> dict[str, Any]:
        clouds: dict[str, Any] = yaml.safe_load((stock.supervisor.folder / "clouds.yaml").read_text(encoding="utf-8"))[
            "clouds"
        ]
        return {name: cloud["auth"] for name, cloud in clouds.items()}

    @pytest.fixture
    def url(self, accounts: dict[str, Any], tmp_path: Path) -> Iterator[str]:
        (port,) = free_ports(1)
        file = tmp_path / "dashboard.conf"
        file.write_text(f"[dashboard]\nauth_url = {accounts[DEMO]['auth_url']}\nport = {port}\n")
        process = ForkedCommand(["dashboard", "--config-file", str(file)], tmp_path / "dashboard.log")
        try:
            wait_until(lambda: _serves(f"http://127.0.0.1:{port}"), "the dashboard to serve")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait(30)

    @pytest.fixture
    def servers(self, stock: StockCloud) -> Iterator[dict[str, str]]:
        """Name → id."""
        mine, other = stock.show(*BOOT, "of-demo", cloud=DEMO), stock.show(*BOOT, "of-admin")
        yield {"of-demo": mine["id"], "of-admin": other["id"]}
        stock.do("server", "delete", "--wait", "of-demo", cloud=DEMO)
        stock.do("server", "delete", "--wait", "of-admin")

    def test_an_administrator_sees_the_cloud(
        self, stock: StockCloud, url: str, accounts: dict[str, Any], servers: dict[str, str]
    ) -> None:
        visitor = Visitor(url)
        assert visitor.sign_in(accounts["kilonova"]).headers["location"] == "/overview"
        assert "All is well" in visitor.get("/overview").text
        host = stock.show("server", "show", servers["of-demo"])["OS-EXT-SRV-ATTR:host"]
        assert host in visitor.get("/hosts/map").json()["names"]
        assert "of-demo" in visitor.get(f"/hosts/by-name/{host}").text
        listed = visitor.get("/servers.json", params={"all": "1"}).json()
        assert {each["name"]: each["host"] for each in listed}["of-demo"] == host
        assert "compute__do_build_and_run_instance" in visitor.get(f"/servers/{servers['of-demo']}").text
        assert (
            f'Why of-demo is on <span class="nowrap">{host}'
            in visitor.get(f"/servers/{servers['of-demo']}/decision").text
        )

    def test_a_member_sees_nothing_of_others(self, url: str, accounts: dict[str, Any], servers: dict[str, str]) -> None:
        administrator, member = Visitor(url), Visitor(url)
        administrator.sign_in(accounts["kilonova"])
        hosts = administrator.get("/hosts/map").json()["names"]
        assert member.sign_in(accounts[DEMO]).headers["location"] == "/overview"
        hidden = [*hosts, "of-admin", servers["of-admin"]]
        own = f"/servers/{servers['of-demo']}"
        for path in (*_PAGES, own, f"{own}/decision"):
            page = member.get(path).text
            assert not [name for name in hidden if name in page], path
        for page in (f"/servers/{servers['of-admin']}", "/hosts/by-name/" + hosts[0]):
            assert member.get(page).status_code in {403, 404}
        assert "of-demo" in member.get("/servers").text
        member.post("/sign-out")
        assert member.get("/servers").status_code == 303
