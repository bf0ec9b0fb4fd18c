# SPDX-License-Identifier: Apache-2.0
"""Log lines as JSON objects with the names of oslo.log."""

import json

from kilonova.logs.json_formatter import JsonFormatter
from kilonova.logs.request_context import RequestContext, working_for
from support.log_records import GLOBAL, LOCAL, record


def test_a_record_is_one_object_with_the_names_of_oslo_log() -> None:
    with working_for(RequestContext(LOCAL, "ann", "blue", GLOBAL)):
        line = JsonFormatter().format(record("%s broke\nERROR forged\u2028\x1b[31m", "it"))
    assert "\n" not in line
    assert line.isascii()
    told = json.loads(line)
    assert told["message"] == "it broke\nERROR forged\u2028\x1b[31m"
    assert (told["levelname"], told["name"], told["lineno"]) == ("WARNING", "kilonova.thing", 7)
    assert told["context"] == {
        "request_id": LOCAL,
        "global_request_id": GLOBAL,
        "user_id": "ann",
        "project_id": "blue",
    }


def test_a_line_about_a_server_names_its_request_wherever_it_was_written() -> None:
    told = json.loads(JsonFormatter().format(record("Server %s created [%s]", "uuid", LOCAL)))
    assert told["context"] == {"request_id": LOCAL}
    assert json.loads(JsonFormatter().format(record("Nothing")))["context"] == {}


def test_an_error_is_bounded_and_told_with_its_cause() -> None:
    cause = ValueError("x" * 100_000)
    error = RuntimeError("outer")
    error.__cause__ = cause
    line = JsonFormatter().format(record("broke", error=error))
    told = json.loads(line)
    assert told["error_summary"] == "RuntimeError: outer"
    assert any("direct cause" in each for each in told["traceback"])
    assert len(line) < 50_000
    assert len(JsonFormatter().format(record("x" * 1_000_000))) < 20_000
