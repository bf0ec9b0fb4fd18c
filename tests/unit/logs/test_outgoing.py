# SPDX-License-Identifier: Apache-2.0
import logging

import pytest

from kilonova.logs import outgoing
from kilonova.logs.request_context import HEADER

LOG = logging.getLogger("kilonova.test_outgoing")


@pytest.mark.parametrize(("status", "level"), [(200, logging.DEBUG), (404, logging.DEBUG), (503, logging.INFO)])
def test_the_request_id_of_the_other_service_is_logged_and_the_query_is_not(
    status: int, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, LOG.name):
        outgoing.tell(LOG, "Glance", "GET", "/v2/images?name=secret", status, {HEADER.lower(): "req-theirs"})
        outgoing.tell(LOG, "Glance", "GET", "/v2/images", status, {})
    first, second = caplog.records
    assert first.levelno == level
    assert first.getMessage() == f"GET /v2/images got status {status} from Glance: req-theirs"
    assert second.getMessage().endswith("without a request id")


def test_failures_of_other_services_are_logged_without_debug(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, LOG.name):
        outgoing.tell(LOG, "Keystone", "GET", "/v3", 200, {})
        outgoing.tell(LOG, "Keystone", "GET", "/v3", 500, {})
    assert len(caplog.records) == 1
