# SPDX-License-Identifier: Apache-2.0
"""Orders that help with a guest that does not work: rescue, a new password, a crash dump."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kilonova.messaging.messages.steps import StepId
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec


@dataclass(frozen=True, slots=True)
class RescueGuest:
    """Start a guest from an image, with its own disk beside it.

    ``image``: how the host gets it; None for a cloud without an image service.
    ``admin_password``: for whoever logs in to it; the config drive of ``guest`` says it, too. It is part of nothing
    that is shown or logged.
    ``image_properties``: what the image says of itself as one to rescue from, such as hw_rescue_device.
    ``timeout_s``: how long the guest may take to shut down, None: as long as its host says.
    """

    step: StepId
    guest: GuestSpec
    image_ref: str
    image: ImageData | None = None
    admin_password: str = field(default="", repr=False)
    image_properties: Mapping[str, str] = field(default_factory=dict)
    timeout_s: float | None = None

    @property
    def instance_uuid(self) -> str:
        return self.guest.uuid


@dataclass(frozen=True, slots=True)
class UnrescueGuest:
    """Start a guest from its own disk again."""

    step: StepId
    instance_uuid: str


@dataclass(frozen=True, slots=True)
class SetAdminPassword:
    """Set the password of the administrator inside a guest. It is part of nothing that is shown or logged."""

    step: StepId
    instance_uuid: str
    admin_password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class TriggerCrashDump:
    """Have a guest write a crash dump."""

    step: StepId
    instance_uuid: str


RescueOrder = RescueGuest | UnrescueGuest | SetAdminPassword | TriggerCrashDump
