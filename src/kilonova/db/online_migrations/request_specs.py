# SPDX-License-Identifier: Apache-2.0
"""Online migration of request specs that lack fields which later releases added: move, networks, device models."""

from collections.abc import Iterator, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from kilonova.db import request_specs
from kilonova.db.core import tables as t
from kilonova.db.core.transaction import Transaction
from kilonova.db.online_migrations.online_migration import OnlineMigration

_R = t.request_specs.c
_PAGE = 500


def _find(connection: Connection) -> Iterator[str]:
    last = ""
    while True:
        page = sa.select(_R.uuid, _R.body).where(_R.uuid > last).order_by(_R.uuid).limit(_PAGE)
        rows = connection.execute(page).all()
        if not rows:
            return
        last = rows[-1].uuid
        yield from (row.uuid for row in rows if not request_specs.is_in_present_form(row.body))


def _change(tx: Transaction, uuids: Sequence[str]) -> int:
    changed = 0
    for row in tx.execute(sa.select(_R.uuid, _R.body).where(_R.uuid.in_(list(uuids)))).all():
        if not request_specs.is_in_present_form(row.body):
            body = request_specs.in_present_form(row.body)
            changed += tx.execute(sa.update(t.request_specs).where(_R.uuid == row.uuid).values(body=body)).rowcount
    return changed


REQUEST_SPECS = OnlineMigration("request specs of earlier releases", _find, _change)
