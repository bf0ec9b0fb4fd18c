# SPDX-License-Identifier: Apache-2.0
"""The request id of log lines and of calls to other services."""

import pytest

from kilonova.logs.formatter import OneLineFormatter
from kilonova.logs.request_context import RequestContext, outgoing_headers, working_for
from support.log_records import GLOBAL, LOCAL, record


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
