# SPDX-License-Identifier: Apache-2.0
"""What a hypervisor is told of a guest: everything it needs to make it, from the instance and what was asked for it."""

from datetime import datetime

from kilonova.clock import utc_now
from kilonova.conductor.workflow_engine.services import Services
from kilonova.db import host_devices, request_specs
from kilonova.db.database import Database
from kilonova.model.config_drive import ConfigDrive
from kilonova.model.guest_devices import GuestDevices
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec, Instance
from kilonova.model.request_spec import StoredRequest


def reserved_for(
    database: Database, instance: Instance, request: StoredRequest, consumer: str | None = None
) -> GuestDevices:
    """Return the cells and devices that a claim has taken for an instance; only flavor and image can ask for any.

    ``consumer``: who holds them; None stands for the instance itself.
    """
    image = request.spec.image
    if not instance.flavor.extra_specs and not (image and image.properties):
        return GuestDevices()
    with database.read() as connection:
        return host_devices.of_guest(connection, consumer or instance.uuid)


def image_data_for(services: Services, host: str, request: StoredRequest) -> ImageData | None:
    """Return how ``host`` gets the image that was asked for, as it is sent: the ticket in it expires."""
    image = request.spec.image
    return None if image is None else services.image_data(host, image)


def config_drive_for(services: Services, host: str, instance: Instance, request: StoredRequest) -> ConfigDrive | None:
    """Return what goes on the config drive of a guest on ``host``; None for a server without one."""
    return services.config_drives.of(services.database, instance, request, host)


def present_guest(services: Services, instance: Instance, host: str, ordered_at: datetime | None) -> GuestSpec | None:
    """Return the guest of a server that is no move's, as ``host`` would have to make it anew.

    None for a server of which nobody knows any more what was asked for it.
    """
    with services.database.read() as connection:
        request = request_specs.get_many(connection, [instance]).get(instance.uuid)
    if request is None:
        return None
    reserved = reserved_for(services.database, instance, request)
    image_data, drive = image_data_for(services, host, request), config_drive_for(services, host, instance, request)
    return guest_of(instance, request, reserved, ordered_at, image_data, drive)


def guest_of(
    instance: Instance,
    request: StoredRequest,
    reserved: GuestDevices,
    ordered_at: datetime | None,
    image_data: ImageData | None,
    config_drive: ConfigDrive | None,
) -> GuestSpec:
    """Return what a hypervisor needs to make the guest of an instance. ``ordered_at``: when its step began.

    ``image_data``, ``config_drive``: None where no guest is made, or it has none.
    """
    flavor, image = instance.flavor, request.spec.image
    return GuestSpec(
        uuid=instance.uuid,
        name=instance.instance_name,
        hostname=instance.hostname,
        vcpus=flavor.vcpus,
        memory_mib=flavor.memory_mib,
        root_gib=flavor.root_gib,
        ephemeral_gib=flavor.ephemeral_gib,
        swap_mib=flavor.swap_mib,
        image_ref=instance.image_ref,
        image_properties=dict(image.properties) if image else {},
        extra_specs=dict(flavor.extra_specs),
        project_id=instance.project_id,
        user_id=instance.user_id,
        key_name=instance.key_name,
        user_data=request.user_data,
        metadata=dict(instance.metadata),
        reserved=reserved,
        ordered_at=ordered_at or utc_now(),
        image=image_data,
        config_drive=config_drive,
    )
