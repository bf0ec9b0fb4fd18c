# SPDX-License-Identifier: Apache-2.0
"""Jobs of the kind ``capacity``: the function of the job, in the process of the test."""

import orjson

from kilonova.api.operator.capacity_job import run
from kilonova.claims.present_cloud import PresentCloud
from kilonova.conductor.jobs.job_context import JobContext
from kilonova.db import jobs
from support.control import NewControl


def test_members_of_a_server_group_count(new_control: NewControl) -> None:
    control = new_control(more="[operator]\njob_workers = 0\n")
    group = {"name": "g", "policy": "anti-affinity"}
    uuid = control.member.post("/os-server-groups", {"server_group": group}).body["server_group"]["id"]
    control.boot(hints={"group": uuid})
    asked = {"flavors": ["1", {"name": "big", "vcpus": 1, "ram": 10_000}], "group": uuid, "project_id": "wonder"}
    answer = control.operator.post("/jobs", {"kind": "capacity", "parameters": asked})
    assert answer.status == 202, answer.body
    (claimed,) = control.process.database.write(lambda tx: jobs.claim(tx, "me", 1))
    told: list[float] = []
    cloud = PresentCloud(control.process.database, control.process.core.rules.engine)
    result = run(JobContext(cloud, lambda done, _text: told.append(done)), claimed.prepared)
    assert result["fits"] == {"flavor1": 1, "big": 1}
    assert orjson.loads(orjson.dumps(result)) == control.operator.post("/capacity", asked).body
    assert told == sorted(told)
    assert told[0] == 0.0
