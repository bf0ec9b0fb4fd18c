# SPDX-License-Identifier: Apache-2.0
from kilonova.db.change_log.changes import LoggedInstance
from kilonova.mirror.instances import InstanceRows, Instances
from kilonova.mirror.node_ids import NodeIds


def logged(host: str, node: str, io: bool = False) -> LoggedInstance:
    return LoggedInstance(host=host, node=node, io=io, flavor="1", image={"os_distro": "a"})


def test_servers_of_one_kind_share_one_object() -> None:
    instances = Instances(NodeIds())
    one, two = instances.place("i1", logged("a", "a")), instances.place("i2", logged("b", "b", io=True))
    assert one.kind is two.kind
    assert (one.io_heavy, two.io_heavy) == (False, True)
    assert one.node_id != two.node_id
    assert instances.place("i1", logged("b", "b")).node_id == two.node_id


def test_only_servers_on_nodes_with_a_row_have_one() -> None:
    ids = NodeIds()
    instances = Instances(ids)
    for uuid, host in (("i1", "a"), ("i2", "gone")):
        instances.place(uuid, logged(host, host))
    rows = InstanceRows(instances, {ids.node("a", "a"): 7})  # type: ignore[arg-type]
    assert dict(rows) == {"i1": 7}
    assert len(rows) == 1
    assert "i2" not in rows
    assert rows.get("unknown") is None
