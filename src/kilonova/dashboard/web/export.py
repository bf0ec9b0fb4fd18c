# SPDX-License-Identifier: Apache-2.0
"""What a page shows, as CSV or JSON."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import falcon.asgi
import orjson

#: Characters with which a spreadsheet begins a formula.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")


def send_csv(resp: falcon.asgi.Response, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Answer with a CSV file. Texts that a spreadsheet would take for a formula begin with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text)
    if rows:
        writer.writerow(rows[0])
        writer.writerows([_harmless(value) for value in row.values()] for row in rows)
    resp.content_type = "text/csv; charset=utf-8"
    resp.text = text.getvalue()
    resp.set_header("Content-Disposition", f'attachment; filename="{name}.csv"')


def send_json(resp: falcon.asgi.Response, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Answer with a JSON file: a list of objects."""
    resp.content_type = "application/json"
    resp.data = orjson.dumps(list(rows), option=orjson.OPT_INDENT_2)
    resp.set_header("Content-Disposition", f'attachment; filename="{name}.json"')


def _harmless(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value
