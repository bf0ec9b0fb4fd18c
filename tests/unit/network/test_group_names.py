# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.errors import Conflict, NotFound
from kilonova.network.group_names import group_id, group_ids
from support.fake_neutron import FakeNeutron

TOKEN = "demo-token"


@pytest.fixture
def fake() -> FakeNeutron:
    fake = FakeNeutron()
    fake.user(TOKEN, "demo")
    fake.user("other-token", "other")
    return fake


def make(fake: FakeNeutron, name: str, token: str = TOKEN) -> str:
    return str(fake.create("security-groups", {"name": name}, token=token)["id"])


def test_groups_are_found_by_name_or_id_each_once(fake: FakeNeutron) -> None:
    web, mail = make(fake, "web"), make(fake, "mail")
    named_by_id = make(fake, web)  # its name is the id of another group: the id comes first
    assert group_ids(fake, TOKEN, "demo", ["mail", web, "web", "mail"]) == (mail, web)
    assert group_id(fake, TOKEN, "demo", web) == web
    fake.delete("security-groups", web, token=TOKEN)
    assert group_id(fake, TOKEN, "demo", web) == named_by_id


def test_the_default_group_alone_needs_no_request(fake: FakeNeutron) -> None:
    assert group_ids(fake, TOKEN, "demo", ["default", "default"]) == group_ids(fake, TOKEN, "demo", []) == ()
    assert fake.faults.calls == []
    assert len(group_ids(fake, TOKEN, "demo", ["default", make(fake, "web")])) == 2


def test_a_missing_or_ambiguous_name(fake: FakeNeutron) -> None:
    make(fake, "web", "other-token")
    with pytest.raises(NotFound, match="Unable to find security_group with name or id 'web'"):
        group_id(fake, TOKEN, "demo", "web")
    for _ in range(2):
        make(fake, "web")
    with pytest.raises(Conflict, match="Multiple security_group matches found for name 'web'"):
        group_ids(fake, TOKEN, "demo", ["web"])
