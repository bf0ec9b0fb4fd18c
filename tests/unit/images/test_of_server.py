# SPDX-License-Identifier: Apache-2.0
import pytest

from kilonova.images.of_server import BACKUP, SNAPSHOT, image_of_server
from kilonova.model.flavor import Flavor
from kilonova.model.instance import Instance, VmState

SERVER = Instance(0, "u", "vm", "p", "alice", VmState.ACTIVE, Flavor("1", "tiny", vcpus=1, memory_mib=64, root_gib=1))


@pytest.mark.parametrize(
    ("kind", "given", "expected"),
    [
        (SNAPSHOT, None, "snapshot"),
        (SNAPSHOT, "golden", "golden"),
        (BACKUP, None, "backup"),
        (BACKUP, "golden", "backup"),
    ],
)
def test_a_snapshot_may_have_a_type_of_its_own(kind: str, given: str | None, expected: str) -> None:
    more = {} if given is None else {"image_type": given}
    made = image_of_server("i", "mine", SERVER, None, "alice", (), {**more, "instance_uuid": "another"}, kind)
    assert made.properties == {"image_type": expected, "instance_uuid": "u", "user_id": "alice"}
