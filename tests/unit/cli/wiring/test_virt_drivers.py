# SPDX-License-Identifier: Apache-2.0
"""`[DEFAULT] compute_driver`: a hypervisor driver from outside serves a host, or the start says why not."""

from pathlib import Path

import pytest

from kilonova.errors import ConfigurationError
from kilonova.model.instance import PowerState
from support.agents_of_conf import GUEST, Load

EXAMPLES = Path(__file__).parents[4] / "examples"


def test_a_driver_from_outside_serves_the_host_of_the_process(agents_with: Load, tmp_path: Path) -> None:
    (agent,) = agents_with(
        "compute_driver = audited_driver.AuditedDriver\nhost = metal7\n[AuditedDriver]\nbook = audit\n"
    )
    assert agent.host == "metal7"
    assert agent.driver.report().host == "metal7"
    agent.driver.spawn(GUEST)
    assert agent.driver.list_guests() == {GUEST.uuid: PowerState.RUNNING}
    agent.driver.destroy(GUEST.uuid)
    lines = (tmp_path / "instances" / "audit").read_text().splitlines()
    assert [line.split()[1:] for line in lines] == [["made", GUEST.uuid], ["destroyed", GUEST.uuid]]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("vmwareapi.VMwareVCDriver", "'vmwareapi.VMwareVCDriver' cannot be loaded (No module named 'vmwareapi')"),
        ("audited_driver.NoDriver", "has no attribute 'NoDriver'"),
        ("half.Half", "'half.Half' has no report, list_guests"),
        ("half.Pausing", "'half.Pausing' implements some abilities incompletely: it lacks unpause"),
        ("half.value", "'half.value' is not a class"),
        ("half.Broken", "Broken cannot be created (ValueError: no hypervisor here)"),
        ("metal", "'metal' cannot be loaded (the name has no module path)"),
    ],
)
def test_what_cannot_be_used_is_said(agents_with: Load, tmp_path: Path, name: str, said: str) -> None:
    (tmp_path / "half.py").write_text(
        "from audited_driver import AuditedDriver\nvalue = 1\nclass Half:\n    def spawn(self, guest): ...\n"
        "from file_driver import FileDriver\nclass Pausing(FileDriver):\n    def pause(self, uuid): ...\n"
        "class Broken(AuditedDriver):\n    def __init__(self, setup, **_): raise ValueError('no hypervisor here')\n"
    )
    with pytest.raises(ConfigurationError) as refused:
        agents_with(f"compute_driver = {name}\n")
    assert said in refused.value.message
    assert "\n" not in refused.value.message
