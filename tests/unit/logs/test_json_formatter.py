# SPDX-License-Identifier: Apache-2.0
"""Lines of JSON for programs that collect logs, and the request that a line is about."""

import json
import logging

import pytest

from kilonova.logs.formatter import OneLineFormatter
from kilonova.logs.json_formatter import JsonFormatter
from kilonova.logs.request_context import RequestContext, outgoing_headers, working_for

LOCAL = "req-0f6b2c1e-4e4b-4a83-9a53-5c1c7a1f6f10"
GLOBAL = "req-11111111-4e4b-4a83-9a53-5c1c7a1f6f10"


def record(message: str, *arguments: object, error: BaseException | None = None) -> logging.LogRecord:
    caught = None if error is None else (type(error), error, None)
    return logging.LogRecord("kilonova.thing", logging.WARNING, __file__, 7, message, arguments, caught)


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


@pytest.mark.parametrize(
    ("request_context", "prefix"),
    [
        (RequestContext(LOCAL, "ann", "blue"), f"[{LOCAL} ann blue] "),
        (RequestContext(LOCAL, "ann", "blue", GLOBAL), f"[{GLOBAL} {LOCAL} ann blue] "),
        (RequestContext(LOCAL), f"[{LOCAL} - -] "),
    ],
)
def test_a_line_begins_with_the_request_it_is_about(request_context: RequestContext, prefix: str) -> None:
    formatter = OneLineFormatter()
    with working_for(request_context):
        assert f" WARNING kilonova.thing {prefix}it broke" in formatter.format(record("it broke"))
    assert " WARNING kilonova.thing it broke" in formatter.format(record("it broke"))


def test_other_services_are_told_under_which_id_they_are_asked() -> None:
    assert outgoing_headers() == {}
    with working_for(RequestContext(LOCAL)):
        assert outgoing_headers() == {"X-OpenStack-Request-ID": LOCAL}
    with working_for(RequestContext(LOCAL, global_request_id=GLOBAL)):
        assert outgoing_headers() == {"X-OpenStack-Request-ID": GLOBAL}
