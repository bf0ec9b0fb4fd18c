# SPDX-License-Identifier: Apache-2.0
"""A hint that names a server of another project has the effect of a hint that names no server."""

from uuid import uuid4

import pytest

from support.control import Control, NewControl

FILTERS = "[filter_scheduler]\nenabled_filters = ComputeFilter,SameHostFilter,DifferentHostFilter\n"


@pytest.fixture
def control(new_control: NewControl) -> Control:
    return new_control(more=FILTERS)


def test_nobody_gets_next_to_a_server_of_another_project(control: Control) -> None:
    foreign, own, unknown = control.boot(control.stranger)["id"], control.boot()["id"], str(uuid4())
    beside_foreign, beside_unknown = (control.boot(hints={"same_host": uuid}) for uuid in (foreign, unknown))
    assert (beside_foreign["status"], beside_unknown["status"]) == ("ERROR", "ERROR")
    assert beside_foreign["fault"]["message"] == beside_unknown["fault"]["message"]
    assert beside_foreign["scheduler_hints"] == {"same_host": foreign}, "what was asked is kept as it was asked"
    beside_own = control.boot(hints={"same_host": [foreign, own]})
    assert (
        beside_own["OS-EXT-SRV-ATTR:host"]
        == control.admin.get(f"/servers/{own}").body["server"]["OS-EXT-SRV-ATTR:host"]
    )
    assert control.boot(control.admin, hints={"same_host": foreign})["status"] == "ACTIVE", "an administrator sees it"


def test_nobody_learns_by_staying_away_where_servers_of_another_project_are(control: Control) -> None:
    foreign = [control.boot(control.stranger) for _ in range(2)]
    assert {server["OS-EXT-SRV-ATTR:host"] for server in foreign} == {"node1", "node2"}
    hints = {"different_host": [server["id"] for server in foreign]}
    assert control.boot(hints=hints)["status"] == "ACTIVE"
    assert control.boot(control.stranger, hints=hints)["status"] == "ERROR"
    assert control.boot(control.admin, hints=hints)["status"] == "ERROR"
