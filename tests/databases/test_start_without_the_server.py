# SPDX-License-Identifier: Apache-2.0
"""A control process that starts while its database is away waits for it. What waiting cannot change ends the start."""

import logging
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.cli.wiring.core import Parts
from kilonova.db import schema
from kilonova.db.database import Database
from kilonova.errors import ConfigurationError, Unavailable
from kilonova.messaging.local import LocalBus
from support.control import Control, start_control
from support.proxies import Proxy

pytestmark = pytest.mark.parametrize("kind", ["postgresql", "mariadb"], indirect=True)


@pytest.fixture
def url(proxy: Proxy, database_url: str) -> str:
    return sa.make_url(database_url).set(port=proxy.port).render_as_string(hide_password=False)


def test_it_waits_with_one_line_and_goes_on(
    tmp_path: Path, proxy: Proxy, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    started: list[Control] = []
    proxy.refuses = True
    with caplog.at_level(logging.WARNING, "kilonova.db.schema"):
        thread = threading.Thread(target=lambda: started.append(start_control(tmp_path, database_url=url)))
        thread.start()
        thread.join(1.0)
        assert thread.is_alive(), "it has ended"
        (line,) = (record.getMessage() for record in caplog.records if "cannot be used" in record.getMessage())
        assert str(proxy.port) in line
        assert "Retrying until the database answers" in line
    proxy.refuses = False
    thread.join(30)
    (control,) = started
    control.process.close()


class LocalEnd(LocalBus):
    """What a control process expects of the end of a broker."""

    def start(self) -> None: ...

    def agents_changed(self) -> None: ...


def test_one_that_goes_away_during_the_start_does_not_end_it(tmp_path: Path, url: str) -> None:
    owners: list[str] = []

    def connect(owner: str, _directory: object, _may_send: object) -> LocalEnd:
        owners.append(owner)
        if len(owners) == 1:
            raise Unavailable("The database cannot be reached.")
        return LocalEnd()

    control = start_control(tmp_path, database_url=url, parts=Parts(connect=connect))
    assert len(owners) == 2
    assert control.admin.get("/servers").status == 200
    control.process.close()


def test_what_waiting_does_not_change_ends_it(kind: str, url: str) -> None:
    wrong = [sa.make_url(url).set(database="no_such_database")]
    if kind == "postgresql":  # the other one of the tests lets everybody in
        wrong.append(sa.make_url(url).set(username="unknown-user", password="wrong"))
    for each in wrong:
        database = Database(each.render_as_string(hide_password=False))
        with pytest.raises(ConfigurationError) as caught:
            schema.wait_until_it_answers(database, lambda _: pytest.fail("it waits"))
        assert not isinstance(caught.value, schema.DatabaseAwayError)
        assert "wrong" not in caught.value.message
        database.close()


def test_it_is_said_now_and_then_that_it_is_still_away(
    proxy: Proxy, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.refuses = True
    now, pauses = [0.0], []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        now[0] += seconds
        proxy.refuses = now[0] < 130

    database = Database(url)
    with caplog.at_level(logging.INFO, "kilonova.db.schema"):
        schema.wait_until_it_answers(database, pause, lambda: now[0])
    database.close()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) <= 5, lines
    assert lines[-1] == "The database answers"
    assert max(pauses) <= 5
