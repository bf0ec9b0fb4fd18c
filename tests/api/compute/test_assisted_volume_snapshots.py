# SPDX-License-Identifier: Apache-2.0
"""Without a volume service no server has a volume of which a snapshot could be made."""

from support.control import Control

INFO = {"snapshot_id": "s", "type": "qcow2", "new_file": "f"}


def test_no_server_has_the_volume(control: Control) -> None:
    body = {"snapshot": {"volume_id": "v", "create_info": INFO}}
    answer = control.admin.post("/os-assisted-volume-snapshots", body)
    assert (answer.status, answer.fault) == (404, ("itemNotFound", "No server has volume v."))
    answer = control.admin.delete('/os-assisted-volume-snapshots/s?delete_info={"volume_id":"v","more":1}')
    assert (answer.status, answer.fault) == (404, ("itemNotFound", "No server has volume v."))


def test_bad_queries(control: Control) -> None:
    for info in (None, "", "v", "{}", '{"volume_id":1}', '{"volume_id":"v"}&more=1'):
        query = "" if info is None else f"?delete_info={info}"
        assert control.admin.delete(f"/os-assisted-volume-snapshots/s{query}").status == 400, info


def test_bad_bodies(control: Control) -> None:
    for info in ({}, {**INFO, "type": "raw"}, {**INFO, "more": 1}, {"snapshot_id": "s", "type": "qcow2"}):
        body = {"snapshot": {"volume_id": "v", "create_info": info}}
        assert control.admin.post("/os-assisted-volume-snapshots", body).status == 400
