# SPDX-License-Identifier: Apache-2.0
"""[conductor], and the timeouts of workflows that wait for agents."""

from typing import Annotated, ClassVar

from kilonova.config.option import Option
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class ConductorSettings:
    """Leases and timeouts of workflows. Units: seconds."""

    GROUP: ClassVar[str] = "conductor"

    lease_time_s: Annotated[
        float,
        Option(
            "Lease of a control process: seconds without a heartbeat after which other control processes take over "
            "its work. Not an option of Nova's.",
            name="lease_time",
            min=1.0,
        ),
    ] = 60.0
    rpc_response_timeout_s: Annotated[
        int,
        Option(
            "Seconds after which an agent that has not replied to an order is asked for its progress. An agent that "
            "answers none of five such queries counts as unreachable.",
            name="rpc_response_timeout",
            group="DEFAULT",
            min=1,
        ),
    ] = 60
    absent_host_timeout_s: Annotated[
        float,
        Option(
            "Seconds that an operation waits for an absent host that has to undo or finish a step. Then it counts as "
            "stuck, and its server is in error. 0: no limit. Not an option of Nova's.",
            name="absent_host_timeout",
            min=0.0,
        ),
    ] = 0.0
    guest_question_timeout_s: Annotated[
        float,
        Option(
            "Timeout in seconds for a host's answer to a user's query about a guest, such as its console output. A "
            "quarter of the API's threads may wait for slow hosts. Not an option of Nova's.",
            name="guest_question_timeout",
            min=0.1,
        ),
    ] = 10.0
    vif_plugging_timeout_s: Annotated[
        int,
        Option(
            "Seconds that a new guest waits until the network service reports its ports as plugged. 0: no wait.",
            name="vif_plugging_timeout",
            group="DEFAULT",
            min=0,
        ),
    ] = 300
    vif_plugging_is_fatal: Annotated[
        bool,
        Option(
            "Whether an operation fails if a port of its guest is not plugged in time. Else the guest runs without it.",
            group="DEFAULT",
        ),
    ] = True
    consecutive_build_service_disable_threshold: Annotated[
        int,
        Option(
            "Whether BuildFailureWeigher counts the failed builds of a host. 0: it does not. As in Nova since Rocky, "
            "failed builds never disable a service.",
            group="compute",
            min=0,
        ),
    ] = 10
