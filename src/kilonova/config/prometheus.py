# SPDX-License-Identifier: Apache-2.0
"""[prometheus]: where metrics are served without a token."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """``metrics_port`` 0: nowhere."""

    GROUP: ClassVar[str] = "prometheus"

    metrics_host: Annotated[
        str, Option("Where metrics_port listens; whoever reaches it reads the metrics (Kilonova's own).")
    ] = "127.0.0.1"
    metrics_port: Annotated[
        int,
        Option(
            "Port that serves /metrics without a token; 0: none, they are at /operator/v1/metrics only "
            "(Kilonova's own).",
            min=0,
            max=65535,
        ),
    ] = 0
