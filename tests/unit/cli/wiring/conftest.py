# SPDX-License-Identifier: Apache-2.0
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kilonova.cli.wiring.agent_process import agents_of
from kilonova.compute.agent import Agent
from kilonova.config.load import load_agent_settings
from kilonova.messaging.local import LocalBus
from support.agents_of_conf import Load

_EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.fixture
def agents_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Loads agents; drivers may be modules of ``examples`` and of ``tmp_path``, which are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(_EXAMPLES))
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)

    def load(text: str) -> tuple[Agent, ...]:
        (tmp_path / "agent.conf").write_text(f"[DEFAULT]\ninstances_path = {tmp_path / 'instances'}\n{text}")
        return agents_of(load_agent_settings([str(tmp_path / "agent.conf")]), LocalBus(), lambda: True)

    yield load
    for name in set(sys.modules) - known:
        del sys.modules[name]
