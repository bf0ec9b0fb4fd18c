# SPDX-License-Identifier: Apache-2.0
"""Upper limits of one compute request: a request beyond them soon gets a 4xx that names the field."""

import json
from typing import Any
from urllib.parse import quote

import pytest

from kilonova.scheduler.filters.json_query import LONGEST, MOST_VALUES
from support.control import IMAGE, Control, NewControl
from support.worst_texts import cpu_limit

UUID = "8a5b6c1c-0000-4000-8000-000000000000"
SERVER = {"name": "vm", "imageRef": IMAGE, "flavorRef": "1", "networks": "none"}


@pytest.fixture(scope="module")
def control(new_shared_control: NewControl) -> Control:
    """A control process that is asked for what it refuses, and for lists."""
    return new_shared_control()


def refused(control: Control, path: str, field: str, *, body: Any = None, version: str = "2.96") -> str:
    """Return the message of the 400 that names the field, which must come soon."""
    client = control.admin.at(version)
    with cpu_limit(3, path[:100]):
        answer = client.get(path) if body is None else client.post(path, body)
    assert answer.status == 400, answer.body
    message = answer.fault[1]
    assert field in message
    assert len(message) < 10_100
    return message


# --- dates -----------------------------------------------------------------------------------------------------------

BORDERS = [
    "0001-01-01T00:00:00+14:00",
    "0001-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-14:00",
    "9999-12-31T23:59:59.999999-00:01",
    "0000-01-01T00:00:00",
    "10000-01-01T00:00:00",
    "-0001-01-01T00:00:00Z",
    "2026-02-30T00:00:00Z",
    "2026-01-01T24:00:01Z",
    "2026-01-01T00:00:00+99:99",
    "9" * 5000,
    "",
]


@pytest.mark.parametrize("moment", BORDERS)
@pytest.mark.parametrize("parameter", ["changes-since", "changes-before"])
@pytest.mark.parametrize("path", ["/servers", "/servers/detail"])
def test_a_moment_outside_the_calendar_is_refused(control: Control, path: str, parameter: str, moment: str) -> None:
    refused(control, f"{path}?{parameter}={quote(moment)}", parameter)


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00", "9999-12-31T23:59:59.999999", "0001-01-01T00:00:00-14:00"])
@pytest.mark.parametrize("parameter", ["changes-since", "changes-before"])
def test_a_moment_at_the_border_is_none_the_worse(control: Control, parameter: str, moment: str) -> None:
    assert control.admin.get(f"/servers?{parameter}={quote(moment)}").status == 200


# --- queries ---------------------------------------------------------------------------------------------------------

LISTS = (
    "/servers", "/servers/detail", "/flavors", "/flavors/detail", "/os-keypairs", "/os-server-groups", "/os-aggregates",
    "/os-hypervisors", "/os-hypervisors/detail", "/os-services", "/os-availability-zone",
)  # fmt: skip


@pytest.mark.parametrize("path", LISTS)
def test_a_query_has_a_largest_length_and_number_of_parameters(control: Control, path: str) -> None:
    with cpu_limit(2, path):
        assert control.admin.get(f"{path}?limit={'1' * 40_000}").status == 414
        answer = control.admin.get(f"{path}?" + "&".join(["limit=1"] * 1001))
        assert (answer.status, "1000" in answer.fault[1]) == (400, True)


SORTED = (
    "created_at",
    "uuid",
    "display_name",
    "vm_state",
    "image_ref",
    "launched_at",
    "key_name",
    "display_description",
)


@pytest.mark.parametrize("direction", ["asc", "desc"])
@pytest.mark.parametrize("keys", [SORTED, ("display_name",), ("key_name", "display_name")])
def test_sort_keys_that_are_repeated_change_nothing(control: Control, keys: tuple[str, ...], direction: str) -> None:
    def listed(repeats: int) -> list[str]:
        query = "&".join(f"sort_key={key}&sort_dir={direction}" for key in keys * repeats)
        found: list[str] = []
        marker = ""
        while True:
            answer = control.admin.get(f"/servers?all_tenants=1&limit=2&{query}{marker}")
            assert answer.status == 200
            page = [server["id"] for server in answer.body["servers"]]
            found += page
            if len(page) < 2:
                return found
            marker = f"&marker={page[-1]}"

    made = {control.boot(name=name)["id"] for name in ("b", "a", "c")}
    once = listed(1)
    with cpu_limit(5, "sort keys"):
        assert listed(400 // len(keys)) == once
    assert made <= set(once)
    assert len(set(once)) == len(once)


REPEATED = (
    "status=ACTIVE",
    "status=nonsense",
    "ip=10",
    "uuid=" + UUID,
    "name=a",
    "flavor=1",
    "tags=a",
    "host=h",
    "deleted=0",
)


@pytest.mark.parametrize("parameter", REPEATED)
def test_filters_that_are_repeated_cost_little(control: Control, parameter: str) -> None:
    with cpu_limit(2, parameter):
        answer = control.admin.get("/servers/detail?" + "&".join([parameter] * 700))
    assert answer.status in {200, 400}


def test_the_status_may_be_written_in_many_ways(control: Control) -> None:
    ways = [
        "".join(letter.upper() if way >> bit & 1 else letter for bit, letter in enumerate("active"))
        for way in range(64)
    ]
    with cpu_limit(2, "status"):
        assert control.admin.get("/servers?" + "&".join(f"status={way}" for way in ways * 10)).status == 200


@pytest.mark.parametrize("name", ["tags", "tags-any", "not-tags", "not-tags-any"])
@pytest.mark.parametrize("distinct", [True, False])
def test_long_lists_of_tags_cost_little(control: Control, name: str, distinct: bool) -> None:
    tags = ",".join(str(number) if distinct else "t" for number in range(5000))
    with cpu_limit(2, name):
        answer = control.admin.get(f"/servers?all_tenants=1&{name}={tags}")
    assert answer.status == 200


def test_tags_are_still_all_wanted(control: Control) -> None:
    control.boot(name="tagged", tags=["x", "y"])
    control.boot(name="half", tags=["x"])

    def names(query: str) -> set[str]:
        found = control.admin.get(f"/servers?all_tenants=1&{query}&limit=5").body["servers"]
        return {server["name"] for server in found} & {"tagged", "half"}

    assert names("tags=x,y,x") == {"tagged"}
    assert names("tags=x") == {"tagged", "half"}
    assert names("not-tags=x,y&name=tagged|half") == {"half"}


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*a){12}$"])
def test_a_pattern_for_names_is_harmless(control: Control, pattern: str) -> None:
    control.boot(name="a" * 254 + "b")
    with cpu_limit(2, pattern):
        assert control.admin.get(f"/servers?all_tenants=1&name={quote(pattern)}").status == 200
    assert "name" in refused(control, "/servers?name=" + quote("a" * 600), "name")


# --- requests for servers --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("counts", [{"max_count": 1001}, {"max_count": "20000"}, {"min_count": 1001}])
def test_one_request_makes_at_most_so_many_servers(control: Control, counts: dict[str, Any]) -> None:
    before = control.everything()
    message = refused(control, "/servers", next(iter(counts)), body={"server": {**SERVER, **counts}})
    assert "1000" in message
    assert control.everything() == before


def nested(levels: int, inner: Any = "x") -> Any:
    for _ in range(levels):
        inner = [inner]
    return inner


HINTS: dict[str, tuple[Any, str]] = {
    "too many": ({f"hint{number}": "x" for number in range(65)}, "os:scheduler_hints"),
    "a long name": ({"x" * 256: "x"}, "os:scheduler_hints"),
    "a long value": ({"mine": "x" * 17_000}, "os:scheduler_hints"),
    "a long list": ({"different_host": [UUID] * 500}, "os:scheduler_hints"),
    "another long list": ({"same_host": [UUID] * 2000}, "os:scheduler_hints"),
    "lists in lists": ({"mine": nested(9)}, "os:scheduler_hints.mine"),
    "very deep lists": ({"mine": nested(800)}, "os:scheduler_hints.mine"),
    "mappings in lists": ({"mine": nested(5, {"a": nested(5)})}, "os:scheduler_hints.mine"),
    "a query with many values": (
        {"query": json.dumps(["in", "$host", *range(MOST_VALUES)])}, "os:scheduler_hints.query"
    ),
    "a query with many lists": ({"query": json.dumps(["and", *[["=", 1, 1]] * 60])}, "os:scheduler_hints.query"),
    "a deep query": ({"query": json.dumps(["not", *nested(60)])}, "os:scheduler_hints.query"),
    "a very deep query": ({"query": "[" * (LONGEST + 1)}, "os:scheduler_hints.query"),
    "a long query": ({"query": " " * (LONGEST + 1)}, "os:scheduler_hints.query"),
}  # fmt: skip


@pytest.mark.parametrize("what", HINTS)
@pytest.mark.parametrize("key", ["os:scheduler_hints", "OS-SCH-HNT:scheduler_hints"])
def test_hints_are_bounded(control: Control, what: str, key: str) -> None:
    hints, field = HINTS[what]
    before = control.everything()
    refused(control, "/servers", field, body={"server": SERVER, key: hints})
    assert control.everything() == before


@pytest.mark.parametrize(
    "hints",
    [
        {"different_host": [UUID] * 200, "mine": "x", "other": ["a", "b"]},
        {"query": json.dumps(["and", [">=", "$free_ram_mb", 1], ["not", ["in", "$host", *map(str, range(50))]]])},
        {"mine": nested(8)},
    ],
)
def test_hints_within_the_bounds_are_taken(control: Control, hints: Any) -> None:
    body = {"server": SERVER, "os:scheduler_hints": hints}
    assert control.admin.at("2.96").post("/servers", body).status == 202


@pytest.mark.parametrize(
    ("part", "field"),
    [
        ({"user_data": "QUFB" * 16_384 + "QUFB"}, "server.user_data"),
        ({"metadata": {"k" * 256: "v"}}, "metadata"),
        ({"metadata": {"k": "v" * 256}}, "server.metadata.k"),
        ({"name": "n" * 256}, "server.name"),
        ({"hostname": "h" * 256}, "server.hostname"),
        ({"hostname": "a" * 1600 + "!"}, "server.hostname"),
        ({"description": "d" * 256}, "server.description"),
        ({"tags": [str(number) for number in range(51)]}, "server.tags"),
        ({"tags": ["t" * 61]}, "server.tags.0"),
        ({"key_name": "k" * 256}, "server.key_name"),
        ({"availability_zone": "z" * 256}, "server.availability_zone"),
    ],
)
def test_every_text_of_a_server_is_bounded(control: Control, part: dict[str, Any], field: str) -> None:
    refused(control, "/servers", field, body={"server": {**SERVER, **part}})
