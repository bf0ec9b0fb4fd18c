# SPDX-License-Identifier: Apache-2.0
"""A control process serves the host of ``compute_driver`` only when it is told to: nova.conf names a driver anyway."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.bundled_services.metadata_relay import HostAgent
from kilonova.db import instance_networks
from kilonova.errors import ConfigurationError
from kilonova.model.network_info import FixedAddress, Vif, VifNetwork, VifSubnet
from support.control import NewControl, new_controls

EXAMPLES = Path(__file__).parents[4] / "examples"
DRIVER = "[DEFAULT]\ncompute_driver = audited_driver.AuditedDriver\nhost = {host}\ninstances_path = {folder}\n{more}"


@pytest.fixture
def new_control(sqlite_template: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[NewControl]:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    with new_controls(sqlite_template, tmp_path) as start:
        yield start


def driver(folder: Path, host: str = "metal7", more: str = "control_serves_host = true\n") -> str:
    return DRIVER.format(host=host, folder=folder / "instances", more=more)


def test_it_has_the_host_beside_simulated_ones_and_boots_on_either(new_control: NewControl, tmp_path: Path) -> None:
    control = new_control(more=driver(tmp_path))
    assert [agent.host for agent in control.process.core.agents] == ["node1", "node2", "metal7"]
    for host in ("node2", "metal7"):
        server = control.boot(control.admin, availability_zone=f"nova:{host}", networks="none")
        assert (server["status"], server["OS-EXT-SRV-ATTR:host"]) == ("ACTIVE", host)
    assert (tmp_path / "instances" / "book").read_text().split()[1:] == ["made", server["id"]]


def test_without_being_told_it_has_the_simulated_ones_only(new_control: NewControl, tmp_path: Path) -> None:
    control = new_control(more=driver(tmp_path, more=""))
    assert [agent.host for agent in control.process.core.agents] == ["node1", "node2"]
    assert not (tmp_path / "instances").exists()


def test_the_folder_of_another_host_is_refused(new_control: NewControl, tmp_path: Path) -> None:
    new_control(more=driver(tmp_path)).process.close()
    new_control(more=driver(tmp_path)).process.close()
    with pytest.raises(ConfigurationError, match=r"instances_path: .* the guests of host metal7, not of metal8"):
        new_control(more=driver(tmp_path, host="metal8"))
    (tmp_path / "instances" / "host").unlink()
    assert new_control(more=driver(tmp_path, host="metal8")).process.core.agents[-1].host == "metal8"


def test_a_name_that_is_there_twice_is_refused(new_control: NewControl, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="host = node2 is also the name of a simulated host"):
        new_control(more=driver(tmp_path, host="node2"))


def test_it_answers_the_metadata_service_of_the_host_about_guests_there(
    new_control: NewControl, tmp_path: Path, socket_folder: Path
) -> None:
    socket = socket_folder / "agent.sock"
    control = new_control(more=driver(tmp_path, more=f"control_serves_host = true\nmetadata_socket = {socket}\n"))
    asked = {"X-Kilonova-Network": "net", "X-Kilonova-Address": "10.1.0.9"}
    subnet = VifSubnet(id="sub", cidr="10.1.0.0/24", version=4, addresses=(FixedAddress("10.1.0.9"),))
    vif = Vif(port_id="p", mac="fa:16:3e:00:00:01", network=VifNetwork(id="net", label="n"), subnets=(subnet,))
    for host, status in (("node2", 404), ("metal7", 200)):
        server = control.boot(control.admin, availability_zone=f"nova:{host}", networks="none")
        control.process.database.write(
            lambda tx, uuid=server["id"]: instance_networks.store_info(tx, uuid, (vif,))  # type: ignore[misc]
        )
        told = HostAgent(str(socket)).ask("GET", "/openstack/latest/meta_data.json", b"", asked)
        assert (told[0], server["id"].encode() in told[2]) == (status, status == 200)
        asked["X-Kilonova-Mac"] = vif.mac  # the agent keeps the answer about a guest that is not there for seconds
    HostAgent(str(socket)).ask("POST", "/openstack/latest/password", b"abc=", asked)
    shown = control.admin.get(f"/servers/{server['id']}/os-server-password")
    assert shown.body["password"] == "abc="
