# SPDX-License-Identifier: Apache-2.0
import sqlalchemy as sa

from kilonova.db.core import tables as t
from kilonova.db.core.statements import ManyRows, insert_many, pieces
from kilonova.db.core.transaction import Transaction
from kilonova.db.database import Database

ODD = "ü 漢字 😀 \"'\\ %s :x {} \x7f"


def test_an_update_of_many_rows_counts_the_rows_that_matched(database: Database) -> None:
    column = t.traits.c
    update = ManyRows(
        {"name": column.name.type, "least": sa.BigInteger()},
        lambda given: (
            sa.update(t.traits)
            .where(column.name == given["name"], column.id >= given["least"])
            .values(updated_at=sa.bindparam("now", type_=t.Time))
        ),
    )

    def write(tx: Transaction) -> None:
        present = [{"name": "HW_CPU_X86_AVX", "least": 0}, {"name": "HW_CPU_X86_AVX2", "least": 0}]
        assert update.run(tx, present, now=tx.now) == 2
        assert update.run(tx, present, now=tx.now) == 2, "rows that have their new values already count, too"
        assert update.run(tx, [*present, {"name": "hw_cpu_x86_avx", "least": 0}], now=tx.now) == 2
        assert update.run(tx, [present[0], {"name": "HW_CPU_X86_SSE", "least": 2**62}], now=tx.now) == 1
        assert update.run(tx, [], now=tx.now) == 0
        changed = tx.execute(sa.select(column.name).where(column.updated_at == tx.now).order_by(column.name))
        assert changed.scalars().all() == ["HW_CPU_X86_AVX", "HW_CPU_X86_AVX2"]

    database.write(write)


def test_many_rows_are_inserted_with_what_they_bring_and_what_they_share(database: Database) -> None:
    insert = insert_many(
        t.consumers,
        {"uuid": "uuid", "project_id": "project", "user_id": "user"},
        generation=sa.literal(1),
        created_at=sa.bindparam("now", type_=t.Time),
    )
    rows = [{"uuid": f"consumer-{n}", "project": ODD, "user": "u"} for n in range(300)]

    def write(tx: Transaction) -> None:
        assert insert.run(tx, rows, now=tx.now) == 300
        found = tx.execute(sa.select(t.consumers).order_by(t.consumers.c.uuid)).mappings().all()
        assert {(row["project_id"], row["generation"], row["created_at"]) for row in found} == {(ODD, 1, tx.now)}

    database.write(write)


def test_values_are_cut_into_lists_for_one_statement_each() -> None:
    assert list(pieces(iter("abcde"), 2)) == [["a", "b"], ["c", "d"], ["e"]]
    assert list(pieces({"a": 1})) == [["a"]]
    assert list(pieces(())) == []
