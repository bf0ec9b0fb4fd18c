# SPDX-License-Identifier: Apache-2.0
"""GET /servers and /servers/detail: filters, order, pages, and who sees what."""

from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from kilonova.db import instances
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.identifiers import new_uuid
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, TaskState, VmState
from support.api_client import Client
from support.control import IMAGE, Control, NewControl

LAUNCHED = datetime(2026, 1, 31, 12, 0, 0, 250000)  # noqa: DTZ001 - as the database has it


def store(
    control: Control, name: str, age_s: int, *, gone: bool = False, project: str = "wonder", **facts: object
) -> str:
    """Store a server without building it."""
    uuid = new_uuid()
    flavor = Flavor(str(facts.pop("flavor", "1")), "f", 1, 512, 1)
    state = facts.pop("vm_state", VmState.ACTIVE)
    later = {name: facts.pop(name) for name in ("progress", "locked_by", "host", "launched_at") if name in facts}
    built = Instance(0, uuid, name, project, "alice", state, flavor, image_ref=IMAGE, **facts)  # type: ignore[arg-type]

    def job(tx: Transaction) -> None:
        instances.insert(tx, [(built, None)])
        if gone:
            instances.mark_deleted(tx, uuid)
        then = tx.now - timedelta(seconds=age_s)
        tx.execute(
            sa.update(t.instances).where(t.instances.c.uuid == uuid).values(created_at=then, updated_at=then, **later)
        )

    control.process.database.write(job)
    return uuid


@pytest.fixture(scope="module")
def control(new_shared_control: NewControl) -> Control:
    """Servers a … f of the member, the oldest first, one of somebody else, one that is deleted."""
    started: Control = new_shared_control(flavor=False)
    store(started, "a", 60, vm_state=VmState.STOPPED, tags=("blue", "red"), hostname="alpha")
    store(started, "b", 50, vm_state=VmState.ERROR, flavor="2", tags=("blue",), disk_config="AUTO")
    store(started, "c", 40, task_state=TaskState.REBOOTING, key_name="k", tags=("green",))
    store(
        started,
        "d",
        30,
        availability_zone="east",
        launch_index=3,
        locked_by="owner",
        description="xyz",
        launched_at=LAUNCHED,
    )
    store(started, "e", 20, config_drive="True", progress=40, reservation_id="r-1", description="cab")
    store(started, "f", 10, vm_state=VmState.BUILDING, task_state=TaskState.SPAWNING)
    store(started, "stranger", 15, project="elsewhere")
    store(started, "ghost", 5, gone=True)
    return started


def names(client: Client, query: str = "") -> str:
    answer = client.get(f"/servers{query}")
    assert answer.status == 200, answer.body
    return "".join(server["name"] for server in answer.body["servers"])


def test_the_newest_first_and_no_more_than_the_limit(control: Control) -> None:
    assert names(control.member) == "fedcb"


def test_pages(control: Control) -> None:
    seen, path = [], "/servers?limit=2"
    while path:
        answer = control.member.get(path)
        seen.append("".join(server["name"] for server in answer.body["servers"]))
        links = answer.body.get("servers_links", ())
        assert all(link["rel"] == "next" for link in links)
        path = links[0]["href"].split("/compute/v2.1")[1] if links else ""
    assert seen[:3] == ["fe", "dc", "ba"]
    assert "".join(seen) == "fedcba"


@pytest.mark.parametrize(
    "sort", ["display_name", "created_at", "vm_state", "task_state", "launched_at", "key_name", "availability_zone"]
)
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_pages_in_any_order_hold_every_server_once(control: Control, sort: str, direction: str) -> None:
    """Also where the column is empty for some."""
    seen, marker = [], ""
    for _ in range(10):
        page = control.member.get(f"/servers?limit=1&sort_key={sort}&sort_dir={direction}{marker}").body["servers"]
        if not page:
            break
        seen.append(page[0]["name"])
        marker = f"&marker={page[0]['id']}"
    whole = names(control.member, f"?sort_key={sort}&sort_dir={direction}")
    assert "".join(seen)[:5] == whole
    assert sorted(seen) == list("abcdef")


def test_two_sort_keys(control: Control) -> None:
    assert names(control.member, "?sort_key=vm_state&sort_dir=asc&sort_key=display_name&sort_dir=desc") == "edcfb"


FILTERS = [
    ("?name=a", "a"),
    ("?name=[ab]", "ba"),
    ("?status=SHUTOFF", "a"),
    ("?status=error", "b"),
    ("?status=REBOOT", "c"),
    ("?status=ACTIVE", "ed"),
    ("?status=ACTIVE&status=ERROR", "edb"),
    ("?status=BUILD", "f"),
    ("?flavor=2", "b"),
    ("?flavor=nothing", ""),
    (f"?image={IMAGE}&limit=1", "f"),
    ("?image=nothing", ""),
    ("?reservation_id=r-1", "e"),
    ("?tags=blue", "ba"),
    ("?tags=blue,red", "a"),
    ("?tags-any=red,green", "ca"),
    ("?not-tags=blue,red&limit=9", "fedcb"),
    ("?not-tags-any=blue,green", "fed"),
    ("?locked=true", "d"),
    ("?availability_zone=east", "d"),
    ("?key_name=k", "c"),
    ("?config_drive=true", "e"),
    ("?config_drive=perhaps", ""),
    ("?progress=40", "e"),
    ("?task_state=spawning", "f"),
    ("?vm_state=stopped", "a"),
    ("?power_state=4", ""),
    ("?power_state=99999999999999999999999", ""),
    ("?progress=%C2%B2", ""),
    ("?ip=10.0.0.1", ""),
    ("?ip6=fe80", ""),
    ("?tenant_id=elsewhere&limit=1", "f"),
    ("?project_id=elsewhere&limit=1", "f"),
    ("?limit=0", ""),
]


@pytest.mark.parametrize(("query", "expected"), FILTERS)
def test_filters(control: Control, query: str, expected: str) -> None:
    assert names(control.member, query) == expected


def test_filters_that_are_not_for_everybody_are_passed_over(control: Control) -> None:
    assert names(control.member, "?hostname=alpha") == "fedcb"
    assert names(control.member.at("2.82"), "?availability_zone=east") == "fedcb"
    assert names(control.admin, "?all_tenants=1&hostname=alpha") == "a"
    assert names(control.admin, "?all_tenants=1&launch_index=3") == "d"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("uuid=nothing", ""),
        ("display_name=[ab]&sort_key=hostname", "ab"),
        ("description=ab", "e"),
        ("display_description=^x", "d"),
        ("description=.&name=[de]", "ed"),
        ("locked_by=owner", "d"),
        ("auto_disk_config=true", "b"),
        ("auto_disk_config=no&name=[ab]", "a"),
        (f"image_ref={IMAGE}&name=a", "a"),
        ("kernel_id=k", ""),
        ("kernel_id=&name=a", "a"),
        ("root_device_name=/dev/vda&name=a", "a"),
        ("root_device_name=/dev/sda", ""),
        ("host=nowhere", ""),
    ],
)
def test_filters_of_administrators(control: Control, query: str, expected: str) -> None:
    """At every microversion; others have the list as it is without them, and from 2.75 on they know these names."""
    for version in ("2.1", "2.104"):
        assert names(control.admin.at(version), f"?all_tenants=1&project_id=wonder&{query}") == expected
    if "name=" not in query.replace("display_name", "").replace("device_name", ""):
        assert names(control.member.at("2.1"), f"?{query.partition('&')[0]}") == "fedcb"


def test_times_of_single_servers(control: Control) -> None:
    """A time is what is shown of a server; a date stands for the whole day."""
    created = control.member.get("/servers/detail?name=c").body["servers"][0]["created"]
    assert names(control.member, f"?created_at={created}") == "c"
    assert names(control.member, f"?created_at={created[:10]}&limit=2") == "fe"
    assert names(control.member, "?created_at=2001-01-01") == ""
    assert names(control.member, "?launched_at=2026-01-31T12:00:00Z") == "d"
    assert names(control.member, "?launched_at=2026-01-31T13:00:00%2B01:00") == "d"
    assert names(control.member, "?launched_at=2026-01-31T12:00:00.5") == ""
    assert names(control.member, "?terminated_at=2026-01-31") == ""
    assert names(control.member, "?created_at=9999-12-31") == ""
    assert names(control.member.at("2.82"), "?created_at=2001-01-01") == "fedcb"
    assert names(control.admin.at("2.1"), "?all_tenants=1&created_at=2001-01-01") == ""


def test_the_zone_of_a_server_is_that_of_its_host(control: Control) -> None:
    """Also one that asked for none, or is somewhere else by now."""
    zone = control.admin.post("/os-aggregates", {"aggregate": {"name": "z", "availability_zone": "west"}})
    action = f"/os-aggregates/{zone.body['aggregate']['id']}/action"
    assert control.admin.post(action, {"add_host": {"host": "node1"}}).status == 200
    owner = control.as_user("zoe", "zoned")
    for name, host, asked in (("w", "node1", None), ("n", "node2", "west"), ("o", None, "west"), ("p", None, None)):
        store(control, name, 100, project="zoned", host=host, availability_zone=asked)
    for asked, expected in (("west", "wo"), ("nova", "n"), ("east", "")):
        shown = {
            server["name"]
            for server in owner.get("/servers/detail").body["servers"]
            if server["OS-EXT-AZ:availability_zone"] == asked
        }
        assert set(names(owner, f"?availability_zone={asked}")) == shown == set(expected)


def test_sort_keys_without_effect(control: Control) -> None:
    assert names(control.member, "?sort_key=kernel_id") == "fedcb"
    assert names(control.member.at("2.74"), "?sort_key=memory_mb") == "fedcb"
    assert control.member.get("/servers?sort_key=memory_mb").status == 400
    assert control.member.at("2.1").get("/servers?sort_key=nonsense").status == 400


def test_a_period_that_ends_before_it_begins(control: Control) -> None:
    path = "/servers?changes-since=2026-01-02T00:00:00Z&changes-before=2026-01-01T00:00:00Z"
    assert control.member.get(path).status == 400


def test_projects(control: Control) -> None:
    assert names(control.admin) == ""
    assert names(control.admin, "?project_id=wonder") == "", "without all_tenants it is one's own project"
    assert names(control.admin, "?all_tenants=1&limit=2") == "fstranger"
    assert names(control.admin, "?all_tenants=1&project_id=elsewhere") == "stranger"
    assert names(control.admin, "?all_tenants=1&tenant_id=wonder") == "fedcb"
    assert names(control.admin, "?all_tenants=0") == ""
    assert control.member.get("/servers?all_tenants=1").status == 403
    assert control.member.get("/servers/detail?all_tenants=1").status == 403


def test_deleted_servers(control: Control) -> None:
    assert names(control.admin, "?all_tenants=1&deleted=true") == "ghost"
    assert names(control.member, "?deleted=true") == "fedcb"
    assert names(control.admin, "?all_tenants=1&status=deleted") == "ghost"
    assert control.member.get("/servers?status=deleted").status == 403


def test_times(control: Control) -> None:
    everything = {
        server["name"]: server for server in control.admin.get("/servers/detail?all_tenants=1").body["servers"]
    }
    moment = everything["e"]["updated"]
    assert names(control.member, f"?changes-since={moment}") == "ghostfe"
    assert "ghost" not in names(control.member, f"?changes-before={moment}")
    assert names(control.member.at("2.65"), f"?changes-before={moment}") == "fedcb"


@pytest.mark.parametrize(
    "query",
    [
        "?name=[",
        "?name=(",
        "?limit=-1",
        "?limit=many",
        "?limit=%C2%B2",
        "?marker=nothing",
        "?marker=%00",
        "?status=NONSENSE",
        "?changes-since=yesterday",
        "?changes-before=never",
        "?sort_key=nonsense",
        "?sort_key=host_id",
        "?sort_dir=up",
        "?locked=perhaps",
        "?all_tenants=perhaps",
        "?nonsense=1",
        "?created_at=lately",
        "?launched_at=",
    ],
)
def test_bad_queries(control: Control, query: str) -> None:
    answer = control.member.get(f"/servers{query}")
    assert answer.status == 400, answer.body
    assert answer.fault[0] == "badRequest"
    assert query.strip("?").split("=")[0] in answer.fault[1]


def test_before_their_time_bad_queries_are_passed_over(control: Control) -> None:
    assert names(control.member.at("2.37"), "?status=NONSENSE") == ""
    assert names(control.member.at("2.74"), "?nonsense=1") == "fedcb"
    assert names(control.member.at("2.25"), "?tags=blue") == "fedcb"


def test_only_administrators_sort_by_host(control: Control) -> None:
    assert control.member.get("/servers?sort_key=host").status == 403
    assert control.admin.get("/servers?all_tenants=1&sort_key=host").status == 200


def test_a_huge_limit_is_the_highest_there_is(control: Control) -> None:
    assert names(control.member, f"?limit={10**30}") == "fedcb"


@pytest.mark.parametrize(
    ("query", "by_admin", "by_member"),
    [
        ("", {"there"}, {"there"}),
        ("?status=SOFT_DELETED", {"hidden"}, {"hidden"}),
        ("?status=SOFT_DELETED&status=ACTIVE", {"there", "hidden"}, {"there", "hidden"}),
        ("?vm_state=soft-delete", {"hidden"}, {"hidden"}),
        ("?soft_deleted=true", {"there", "hidden"}, {"there"}),
        ("?soft_deleted=false", {"there"}, {"there"}),
        ("?deleted=true", {"gone", "hidden"}, {"there"}),
        ("?deleted=true&soft_deleted=false", {"gone"}, {"there"}),
        ("?deleted=true&soft_deleted=true", {"gone", "hidden"}, {"there"}),
        ("?deleted=false&soft_deleted=true", {"there", "hidden"}, {"there"}),
        ("?changes-since=2001-01-01T00:00:00Z", {"there", "hidden", "gone"}, {"there", "hidden", "gone"}),
    ],
)
def test_soft_deleted_servers_are_listed_when_somebody_asks_for_them(
    control: Control, query: str, by_admin: set[str], by_member: set[str]
) -> None:
    if not control.admin.get("/servers?name=hidden&soft_deleted=true&all_tenants=1").body["servers"]:
        store(control, "there", 10, project="attic")
        store(control, "hidden", 10, project="attic", vm_state=VmState.SOFT_DELETED)
        store(control, "gone", 10, project="attic", gone=True)
    owner = control.as_user("olga", "attic")
    in_all = query + ("&" if query else "?") + "all_tenants=true&project_id=attic"
    for client, path, expected in ((control.admin, in_all, by_admin), (owner, query, by_member)):
        found = client.get(f"/servers{path}")
        assert {each["name"] for each in found.body["servers"]} == expected, path


@pytest.mark.parametrize("name", ["services", "system_metadata", "security_groups", "info_cache", "pci_devices"])
def test_names_of_tables_that_nova_joins_have_no_effect(control: Control, name: str) -> None:
    everything = control.admin.get("/servers").body
    assert control.admin.at("2.75").get(f"/servers?{name}=x").body == everything
