# SPDX-License-Identifier: Apache-2.0
"""The agent process of a host of another machine's cloud; tests/guests/test_ovn_machines.py has the whole host."""

from pathlib import Path

import pytest

from kilonova.cli.up.children import stop
from kilonova.cli.up.joined import JoinedAgent
from kilonova.errors import Unavailable


def test_an_agent_that_cannot_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    agent = JoinedAgent([tmp_path / "none.conf"], tmp_path, str(tmp_path / "agent.sock"))
    try:
        with pytest.raises(Unavailable, match=r"(?s)agent ended with exit status 2; .*none\.conf"):
            agent.wait()
        assert not agent.answers()
    finally:
        stop([agent])
