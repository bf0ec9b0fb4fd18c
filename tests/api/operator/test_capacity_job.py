# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``capacity``: the function of the job, in the process of the test."""

from support.control import NewControl
from support.inline_jobs import result_of_job


def test_members_of_a_server_group_count(new_control: NewControl) -> None:
    control = new_control(more="[operator]\njob_workers = 0\n")
    group = {"name": "g", "policy": "anti-affinity"}
    uuid = control.member.post("/os-server-groups", {"server_group": group}).body["server_group"]["id"]
    control.boot(hints={"group": uuid})
    asked = {"flavors": ["1", {"name": "big", "vcpus": 1, "ram": 10_000}], "group": uuid, "project_id": "wonder"}
    told: list[float] = []
    result = result_of_job(control, "capacity", asked, report=lambda done, _text: told.append(done))
    assert result["fits"] == {"flavor1": 1, "big": 1}
    assert result == control.operator.post("/capacity", asked).body
    assert told == sorted(told)
    assert told[0] == 0.0
