# SPDX-License-Identifier: Apache-2.0
import gc
import socket
from pathlib import Path

import pytest

from kilonova.errors import Unavailable
from kilonova.periodic import PeriodicThread
from support.control import start_control


def test_a_start_that_fails_at_its_last_part_leaves_no_thread_and_no_lock(tmp_path: Path) -> None:
    before = {each for each in gc.get_objects() if isinstance(each, PeriodicThread)}
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(Unavailable):
            start_control(tmp_path, more=f"[prometheus]\nmetrics_host = 127.0.0.1\nmetrics_port = {port}\n")
    left = [each for each in gc.get_objects() if isinstance(each, PeriodicThread) and each.is_alive]
    assert [each.name for each in left if each not in before] == []
    start_control(tmp_path).process.close()
