# SPDX-License-Identifier: Apache-2.0
"""[conductor], and how long its workflows wait for agents."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from kilonova.config.option import Option


@dataclass(frozen=True, slots=True)
class ConductorSettings:
    """Units: seconds."""

    GROUP: ClassVar[str] = "conductor"

    lease_time_s: Annotated[
        float,
        Option(
            "Seconds after which a silent control process counts as dead, and others take over its work. Not an option "
            "of Nova's.",
            name="lease_time",
            min=1.0,
        ),
    ] = 60.0
    rpc_response_timeout_s: Annotated[
        int,
        Option(
            "Seconds after which an agent that has not replied to a step of an operation is asked how far it is. "
            "One that leaves five such questions without an answer counts as unreachable.",
            name="rpc_response_timeout",
            group="DEFAULT",
            min=1,
        ),
    ] = 60
    guest_question_timeout_s: Annotated[
        float,
        Option(
            "Seconds within which a host has to answer what a user asks about a guest, such as its console output. A "
            "quarter of the API's threads may wait for hosts that are slow to answer. Not an option of Nova's.",
            name="guest_question_timeout",
            min=0.1,
        ),
    ] = 10.0
    consecutive_build_service_disable_threshold: Annotated[
        int,
        Option(
            "Whether builds that fail count against their host for BuildFailureWeigher. 0: they do not. As in Nova "
            "since Rocky, no number of them disables a service.",
            group="compute",
            min=0,
        ),
    ] = 10
