# SPDX-License-Identifier: Apache-2.0
"""Parameters of forecasts."""

from collections.abc import Mapping
from typing import Any

import msgspec

from kilonova.api.operator.bodies.policy_change import AskedRules


class AskedPolicy(AskedRules, frozen=True, kw_only=True):
    """A further policy: a change of the present rules."""

    name: str


class AskedForecast(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of jobs of the kind ``forecast``. ``name``: that of the present policy."""

    scenario: Mapping[str, Any]
    name: str = "present"
    policies: tuple[AskedPolicy, ...] = ()
