# SPDX-License-Identifier: Apache-2.0
"""How much is logged changes while a process runs: at SIGHUP it reads ``debug`` again."""

import logging
from collections.abc import Iterator

import pytest

from kilonova.cli.wiring.log import reread_debug
from kilonova.config.log import LogSettings
from kilonova.errors import ConfigurationError


@pytest.fixture(autouse=True)
def _level() -> Iterator[None]:
    before = logging.getLogger().level
    yield
    logging.getLogger().setLevel(before)


def test_the_level_follows_the_file() -> None:
    for debug, level in ((True, logging.DEBUG), (False, logging.INFO), (True, logging.DEBUG)):
        reread_debug(lambda debug=debug: LogSettings(debug=debug))()  # type: ignore[misc]
        assert logging.getLogger().level == level


def test_a_file_that_cannot_be_read_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    logging.getLogger().setLevel(logging.INFO)

    def broken() -> LogSettings:
        raise ConfigurationError("[api] threads: not a number")

    reread_debug(broken)()
    assert logging.getLogger().level == logging.INFO
    assert "[api] threads: not a number" in caplog.text
