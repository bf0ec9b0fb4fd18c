# SPDX-License-Identifier: Apache-2.0
"""Orders that change the network interfaces of a guest."""

from kilonova.messaging.messages.steps import StepId
from kilonova.model.network_info import Vif
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class AttachInterface:
    """Add an interface to a guest, whether it runs or not. No error if the guest has the interface."""

    step: StepId
    instance_uuid: str
    vif: Vif


@dataclass(frozen=True, slots=True)
class DetachInterface:
    """Remove an interface from a guest, whether it runs or not. No error if the guest does not have it."""

    step: StepId
    instance_uuid: str
    vif: Vif


InterfaceOrder = AttachInterface | DetachInterface
