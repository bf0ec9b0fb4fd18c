# SPDX-License-Identifier: Apache-2.0
"""Requests beyond a quota are refused, also concurrent ones, and refused requests do not count as usage."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kilonova.cli.wiring.control import start_control_process
from kilonova.db import quotas
from kilonova.db.audits import audit
from kilonova.db.quotas import EVERYBODY
from kilonova.model.quota import Usage
from support.api_client import Answer, Client
from support.control import Control, settings_of

QUOTA = "/os-quota-sets/wonder"


def limit(control: Control, user: str | None = None, **limits: Any) -> None:
    query = f"?user_id={user}" if user else ""
    answer = control.admin.put(f"{QUOTA}{query}", {"quota_set": {**limits, "force": True}})
    assert answer.status == 200, answer.body


def used(control: Control, project: str = "wonder", user: str = EVERYBODY) -> Usage:
    with control.process.database.read() as connection:
        assert list(audit.wrong_quota_usages(connection)) == []
        return quotas.usage_of(connection, project, user)


def in_use(control: Control) -> dict[str, int]:
    answer = control.member.get(f"{QUOTA}/detail").body["quota_set"]
    assert all(each["reserved"] == 0 for name, each in answer.items() if name != "id")
    return {name: each["in_use"] for name, each in answer.items() if name != "id" and each["in_use"]}


def text(answer: Answer) -> str:
    assert answer.status == 403, answer.body
    return str(answer.body["forbidden"]["message"])


def test_of_many_parallel_creates_exactly_as_many_are_accepted_as_the_limit_says(control: Control) -> None:
    limit(control, instances=50)
    with ThreadPoolExecutor(32) as pool:
        answers = list(pool.map(lambda _: control.ask(), range(200)))
    assert Counter(answer.status for answer in answers) == {202: 50, 403: 150}
    assert Counter(control.check().values()) == {"active": 50}
    assert used(control) == Usage(50, 50, 50 * 512)


def test_one_request_of_a_batch_over_quota_leaves_the_others_alone(control: Control) -> None:
    limit(control, instances=1)
    stranger = control.as_user("mallory", "elsewhere")
    with ThreadPoolExecutor(32) as pool:
        ours = [pool.submit(control.ask) for _ in range(20)]
        theirs = [pool.submit(control.ask, stranger) for _ in range(20)]
    assert Counter(each.result().status for each in ours) == {202: 1, 403: 19}
    assert Counter(each.result().status for each in theirs) == {202: 20}
    assert Counter(control.check().values()) == {"active": 21}


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"instances": 2}, "Quota exceeded for instances: Requested 1, but already used 2 of 2 instances"),
        ({"cores": 5}, "Quota exceeded for cores: Requested 2, but already used 4 of 5 cores"),
        ({"ram": 2000}, "Quota exceeded for ram: Requested 700, but already used 1400 of 2000 ram"),
        (
            {"instances": 2, "ram": 1400},
            "Quota exceeded for instances, ram: Requested 1, 700, but already used 2, 1400 of 2, 1400 instances, ram",
        ),
        ({"instances": 0}, "Quota exceeded for instances: Requested 1, but already used 2 of 0 instances"),
    ],
)
def test_the_refusal_names_what_is_short(control: Control, limits: dict[str, int], message: str) -> None:
    control.add_flavor("2", vcpus=2, ram=700)
    control.boot(flavorRef="2")
    control.boot(flavorRef="2")
    limit(control, **limits)
    assert text(control.ask(flavorRef="2")) == message
    control.settle()
    assert used(control) == Usage(2, 4, 1400)
    assert control.ask(control.as_user("mallory", "elsewhere"), flavorRef="2").status == 202


def test_between_min_and_max_as_many_are_made_as_fit(control: Control) -> None:
    limit(control, cores=5)
    assert text(control.ask(min_count=6, max_count=9)).startswith("Quota exceeded for cores: Requested 6")
    assert control.ask(min_count=2, max_count=9).status == 202
    assert Counter(control.check().values()) == {"active": 5}
    assert used(control) == Usage(5, 5, 5 * 512)
    assert control.ask(min_count=1, max_count=2).status == 403


def test_a_deleted_server_counts_no_longer_whatever_its_state_was(control: Control) -> None:
    limit(control, instances=2)
    first = control.boot()
    control.add_flavor("huge", vcpus=10_000)
    failed = control.boot(flavorRef="huge")
    assert failed["status"] == "ERROR"
    assert used(control).instances == 2
    assert control.ask().status == 403
    for server in (first, failed):
        assert control.member.delete(f"/servers/{server['id']}").status == 204
        control.settle()
    assert used(control) == Usage()
    assert control.boot()["status"] == "ACTIVE"


def test_deleting_twice_gives_back_once(control: Control) -> None:
    servers = [control.boot()["id"] for _ in range(3)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda uuid: control.member.delete(f"/servers/{uuid}"), servers * 4))
    control.settle()
    assert used(control) == Usage()


def test_a_user_may_have_less_than_his_project(control: Control) -> None:
    control.boot()
    limit(control, user="alice", instances=2)
    bob = control.as_user("bob", "wonder")
    assert used(control, user="alice").instances == 1, "what was there before counts, too"
    control.boot()
    assert text(control.ask()).endswith("already used 2 of 2 instances")
    control.boot(bob)
    assert used(control).instances == 3
    assert used(control, user="alice").instances == 2
    assert control.admin.delete(f"{QUOTA}?user_id=alice").status == 202
    assert control.ask().status == 202
    control.settle()
    limit(control, instances=4)
    assert control.ask().status == 403
    assert control.ask(bob).status == 403


def test_limits_of_the_default_class_hold_for_projects_without_own_ones(control: Control) -> None:
    body = {"quota_class_set": {"instances": 1}}
    assert control.admin.put("/os-quota-class-sets/default", body).status == 200
    control.boot()
    assert control.ask().status == 403
    limit(control, instances=2)
    control.boot()
    assert control.ask().status == 403
    assert control.admin.delete(QUOTA).status == 202
    assert text(control.ask()).endswith("already used 2 of 1 instances")
    assert control.admin.put("/os-quota-class-sets/other", {"quota_class_set": {"instances": -1}}).status == 200
    assert control.ask().status == 403, "limits of another class have no effect"


def test_metadata_items(control: Control) -> None:
    limit(control, metadata_items=2)
    assert control.ask(metadata={"a": "1", "b": "2"}).status == 202
    assert text(control.ask(metadata={"a": "1", "b": "2", "c": "3"})) == "Maximum number of metadata items exceeds 2"
    limit(control, metadata_items=-1)
    assert control.ask(metadata={str(number): "1" for number in range(200)}).status == 202


def test_key_pairs_are_counted_for_each_user(control: Control) -> None:
    limit(control, key_pairs=2)

    def make(client: Client, name: str) -> Answer:
        key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIHE5S1eWoSlVXPp1v9oGoxSDfJXvZmZmJ8DqzJ1pYh1t user@example"
        return client.post("/os-keypairs", {"keypair": {"name": name, "public_key": key}})

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda name: make(control.member, name).status, "abcdefgh"))
    assert Counter(made) == {201: 2, 403: 6}
    assert make(control.as_user("bob", "wonder"), "a").status == 201


def test_server_groups_of_a_project_and_of_a_user(control: Control) -> None:
    limit(control, server_groups=3)
    limit(control, user="alice", server_groups=1)
    bob = control.as_user("bob", "wonder")

    def make(client: Client) -> int:
        body = {"server_group": {"name": "g", "policy": "soft-affinity"}}
        return client.post("/os-server-groups", body).status

    assert [make(control.member), make(control.member)] == [200, 403]
    assert [make(bob), make(bob), make(bob)] == [200, 200, 403]
    assert in_use(control) == {"server_groups": 3}


def test_members_of_a_server_group_are_counted_for_each_user(control: Control) -> None:
    limit(control, server_group_members=4)
    body = {"server_group": {"name": "g", "policy": "soft-affinity"}}
    group = control.member.post("/os-server-groups", body).body["server_group"]["id"]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: control.ask(hints={"group": group}), range(8)))
    assert Counter(answer.status for answer in answers) == {202: 4, 403: 4}
    refused = next(answer for answer in answers if answer.status == 403)
    assert text(refused) == "Quota exceeded, too many servers in group"
    control.settle()
    bob = control.as_user("bob", "wonder")
    assert control.ask(bob, hints={"group": group}, max_count=4).status == 202
    assert control.ask(bob, hints={"group": group}).status == 403
    first = control.member.get("/servers").body["servers"][-1]["id"]
    control.settle()
    assert control.admin.delete(f"/servers/{first}").status == 204
    control.settle()
    assert used(control) == Usage(7, 7, 7 * 512)


def test_a_limit_below_what_is_used_needs_force(control: Control) -> None:
    control.boot()
    control.boot()
    refused = control.admin.put(QUOTA, {"quota_set": {"instances": 1}})
    assert refused.status == 400
    assert "instances" in refused.body["badRequest"]["message"]
    assert control.admin.put(QUOTA, {"quota_set": {"instances": 1, "cores": 7, "force": "false"}}).status == 400
    assert control.admin.get(QUOTA).body["quota_set"]["cores"] == -1, "nothing of it"
    assert control.admin.put(QUOTA, {"quota_set": {"instances": 2}}).status == 200
    limit(control, instances=1)
    assert control.admin.get(QUOTA).body["quota_set"]["instances"] == 1


def test_the_driver_without_quotas_limits_nothing(control: Control) -> None:
    limit(control, instances=0)
    assert control.ask().status == 403
    control.process.close()
    driver = "[quota]\ndriver = nova.quota.NoopQuotaDriver\n"
    control.process = start_control_process(settings_of(control.folder, more=driver))
    assert control.ask().status == 202
    assert control.member.get(QUOTA).body["quota_set"]["instances"] == -1
    assert control.member.get("/limits").body["limits"]["absolute"]["maxTotalInstances"] == -1
    control.settle()
    assert used(control).instances == 1


def test_nova_s_defaults_hold_where_nothing_is_configured(control: Control) -> None:
    control.process.close()
    settings_of(control.folder)
    file = control.folder / "kilonova.conf"
    file.write_text(file.read_text().partition("[quota]")[0])
    from kilonova.config.load import load_settings

    settings = load_settings([str(file)])
    control.process = start_control_process(settings)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda _: control.ask(), range(15)))
    assert Counter(answer.status for answer in answers) == {202: 10, 403: 5}
    control.settle()
