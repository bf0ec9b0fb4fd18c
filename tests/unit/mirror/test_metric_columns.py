# SPDX-License-Identifier: Apache-2.0
import numpy as np

from kilonova.mirror.metric_columns import MetricColumns

ROWS = {"a": 0, "b": 1}


def shown(columns: MetricColumns) -> dict[str, list[float | None]]:
    return {
        name: [None if np.isnan(each) else each for each in column.tolist()] for name, column in columns.columns.items()
    }


def test_reports_are_laid_out_by_row_and_hypervisors_without_a_row_are_left_out() -> None:
    columns = MetricColumns()
    for uuid in ("a", "b", "elsewhere"):
        columns.set(uuid, {"cpu": 0.5, f"of {uuid}": 1.0}, None)
    assert shown(columns) == {}
    columns.lay_out(ROWS.get, 2)
    assert shown(columns) == {"cpu": [0.5, 0.5], "of a": [1.0, None], "of b": [None, 1.0]}


def test_a_new_report_replaces_the_old_one_in_columns_that_readers_keep() -> None:
    columns = MetricColumns()
    columns.set("a", {"cpu": 0.5, "power": 9.0}, None)
    columns.lay_out(ROWS.get, 2)
    before = dict(columns.columns)
    columns.set("a", {"cpu": 0.25}, 0)
    assert shown(columns) == {"cpu": [0.25, None], "power": [None, None]}
    assert before["cpu"].tolist()[0] == 0.5
    columns.remove("a")
    columns.remove("unknown")
    columns.lay_out(ROWS.get, 2)
    assert shown(columns) == {}
