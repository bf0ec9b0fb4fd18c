# SPDX-License-Identifier: Apache-2.0
"""Orders for the repair of a guest: rescue, unrescue, password change and crash dump."""

from collections.abc import Mapping
from dataclasses import field

from kilonova.messaging.messages.steps import StepId
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec
from kilonova.records import dataclass


@dataclass(frozen=True, slots=True)
class RescueGuest:
    """Start a guest from a rescue image, with its own disk attached as a second disk.

    ``image``: source of the image data; None in a cloud without an image service.
    ``admin_password``: password of the rescue system; the config drive of ``guest`` contains it, too. The password is
    never shown or logged.
    ``image_properties``: rescue properties of the image, such as hw_rescue_device.
    ``timeout_s``: shutdown timeout of the guest; None is the default of the host.
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
    """Set the administrator's password inside a guest. The password is never shown or logged."""

    step: StepId
    instance_uuid: str
    admin_password: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class TriggerCrashDump:
    """Trigger a crash dump in a guest."""

    step: StepId
    instance_uuid: str


RescueOrder = RescueGuest | UnrescueGuest | SetAdminPassword | TriggerCrashDump
