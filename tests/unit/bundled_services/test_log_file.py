# SPDX-License-Identifier: Apache-2.0
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from kilonova.bundled_services import log_file


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    root = logging.getLogger()
    before = list(root.handlers)
    yield root
    for handler in list(root.handlers):
        root.removeHandler(handler)
    for handler in before:
        root.addHandler(handler)


def test_errors_of_any_engine_name_no_values() -> None:
    engine = sa.create_engine("sqlite://")
    log_file.hide_sql_values(engine)
    with engine.connect() as connection, pytest.raises(sa.exc.OperationalError) as error:
        connection.execute(sa.text("SELECT * FROM nowhere WHERE password = :secret"), {"secret": "hunter2"})
    assert "no such table: nowhere" in str(error.value)
    assert "hunter2" not in str(error.value)


def test_the_format_of_the_service_stays_and_its_lines_are_safe(root: logging.Logger, tmp_path: Path) -> None:
    own = logging.StreamHandler()
    own.setFormatter(logging.Formatter("[keystone] %(message)s"))
    root.addHandler(own)
    root.handlers.insert(0, root.handlers.pop())
    log_file.take_over(str(tmp_path / "keystone.log"))
    logging.getLogger("keystone").warning("user %s", "eve\n[keystone] forged")
    assert (tmp_path / "keystone.log").read_text() == "[keystone] user eve\\n[keystone] forged\n"
