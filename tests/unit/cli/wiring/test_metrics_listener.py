# SPDX-License-Identifier: Apache-2.0
from typing import Any

import pytest

from kilonova.cli.wiring.metrics_listener import application_of, serve_metrics
from kilonova.config.prometheus import PrometheusSettings
from kilonova.metrics import Metrics


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/metrics", "200 OK"),
        ("HEAD", "/metrics", "200 OK"),
        ("POST", "/metrics", "405 Method Not Allowed"),
        ("GET", "/", "404 Not Found"),
        ("GET", "/metrics/", "404 Not Found"),
    ],
)
def test_metrics_are_read_and_nothing_else(method: str, path: str, status: str) -> None:
    said: list[Any] = []
    application = application_of(Metrics())
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path}
    (body,) = application(environ, lambda *answer: said.append(answer))
    assert said[0][0] == status
    assert dict(said[0][1])["Content-Length"] == str(len(body))


def test_without_a_port_nothing_listens() -> None:
    assert serve_metrics(PrometheusSettings(metrics_port=0), Metrics()) is None
