# SPDX-License-Identifier: Apache-2.0
"""[prometheus]: address at which metrics are served without a token."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Address of the metrics listener. ``metrics_port`` 0: no listener."""

    GROUP: ClassVar[str] = "prometheus"

    metrics_host: Annotated[
        str, Option("Address for metrics_port; every client that reaches it can read the metrics (Kilonova's own).")
    ] = "127.0.0.1"
    metrics_port: Annotated[
        int,
        Option(
            "Port that serves /metrics without a token. 0: no port; only /operator/v1/metrics serves the metrics "
            "(Kilonova's own).",
            min=0,
            max=65535,
        ),
    ] = 0
