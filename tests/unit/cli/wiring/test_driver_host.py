# SPDX-License-Identifier: Apache-2.0
"""A control process serves the host of ``compute_driver`` only when it is told to: nova.conf names a driver anyway."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.errors import ConfigurationError
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
