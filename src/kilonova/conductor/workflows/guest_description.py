# SPDX-License-Identifier: Apache-2.0
"""Descriptions of guests in orders to hosts, made from the instance and its stored request."""

from datetime import datetime

from sqlalchemy.engine import Connection

from kilonova.clock import utc_now
from kilonova.conductor.workflow_engine.run import HasHost, Run, ServerGoneError
from kilonova.conductor.workflow_engine.services import Services
from kilonova.db import host_devices, instance_networks, instances, request_specs
from kilonova.db.database import Database
from kilonova.model.config_drive import ConfigDrive
from kilonova.model.flavor import Flavor
from kilonova.model.guest_devices import GuestDevices
from kilonova.model.image import Image
from kilonova.model.image_data import ImageData
from kilonova.model.instance import GuestSpec, Instance
from kilonova.model.network_info import NetworkInfo
from kilonova.model.request_spec import StoredRequest
from kilonova.records import replace


def find_server(connection: Connection, uuid: str) -> tuple[Instance, StoredRequest]:
    """Return a server and its stored request. Raises: ServerGoneError."""
    instance = instances.find(connection, uuid)
    requests = {} if instance is None else request_specs.get_many(connection, [instance])
    if instance is None or uuid not in requests:
        raise ServerGoneError(uuid)
    return instance, requests[uuid]


def describe(services: Services, run: Run[HasHost], host: str, flavor: Flavor | None = None) -> GuestSpec:
    """Return the description of a workflow's guest for ``host``. Raises: ServerGoneError.

    ``flavor``: flavor of the guest; None for the server's own flavor.
    """
    with services.database.read() as connection:
        instance, request = find_server(connection, run.instance_uuid)
    sized = instance if flavor is None else replace(instance, flavor=flavor)
    return new_guest(services, host, sized, request, run.row.since)


def new_guest(
    services: Services,
    host: str,
    instance: Instance,
    request: StoredRequest,
    ordered_at: datetime | None,
    image: Image | None = None,
    vifs: NetworkInfo | None = None,
) -> GuestSpec:
    """Return the description of a guest to create on ``host``.

    ``image``: source of the disk; None: requested image. ``vifs``: its interfaces; None: those of the server.
    """
    reserved = _reserved(services.database, instance, request, None)
    data = image_data_for(services, host, request) if image is None else services.image_data(host, image)
    drive = config_drive_for(services, host, instance, request)
    interfaces = interfaces_of(services.database, instance.uuid) if vifs is None else vifs
    return replace(_guest(instance, request, reserved, ordered_at, data, drive), vifs=interfaces)


def kept_guest(
    database: Database,
    instance: Instance,
    request: StoredRequest,
    ordered_at: datetime | None,
    holder: str | None = None,
) -> GuestSpec:
    """Return the description of a guest whose disks exist on its host.

    ``holder``: consumer that holds the guest's NUMA cells and devices; None: the server itself.
    """
    guest = _guest(instance, request, _reserved(database, instance, request, holder), ordered_at, None, None)
    return replace(guest, vifs=interfaces_of(database, instance.uuid))


def interfaces_of(database: Database, instance_uuid: str) -> NetworkInfo:
    """Return the cached network interfaces of a server."""
    with database.read() as connection:
        return instance_networks.info_of(connection, instance_uuid)


def image_data_for(services: Services, host: str, request: StoredRequest) -> ImageData | None:
    """Return how ``host`` downloads the requested image.

    The result contains a ticket that expires, so send it at once.
    """
    image = request.spec.image
    return None if image is None else services.image_data(host, image)


def config_drive_for(services: Services, host: str, instance: Instance, request: StoredRequest) -> ConfigDrive | None:
    """Return the contents of a guest's config drive on ``host``; None if the server has none."""
    return services.config_drives.of(services.database, instance, request, host)


def _reserved(database: Database, instance: Instance, request: StoredRequest, holder: str | None) -> GuestDevices:
    """Return the NUMA cells and devices claimed for a guest. Only extra specs and image properties can request them."""
    image = request.spec.image
    if not instance.flavor.extra_specs and not (image and image.properties):
        return GuestDevices()
    with database.read() as connection:
        return host_devices.of_guest(connection, holder or instance.uuid)


def _guest(
    instance: Instance,
    request: StoredRequest,
    reserved: GuestDevices,
    ordered_at: datetime | None,
    image_data: ImageData | None,
    config_drive: ConfigDrive | None,
) -> GuestSpec:
    """Return the description of a guest. ``ordered_at``: start time of the step that orders the guest."""
    flavor, image, disks = instance.flavor, request.spec.image, request.disks
    swap = disks.swap if disks.swap is not None and disks.swap.applies_to(flavor) else None
    return GuestSpec(
        uuid=instance.uuid,
        name=instance.instance_name,
        hostname=instance.hostname,
        vcpus=flavor.vcpus,
        memory_mib=flavor.memory_mib,
        root_gib=flavor.root_gib,
        ephemeral_gib=0 if disks.ephemeral else flavor.ephemeral_gib,
        requested_ephemeral=disks.ephemeral,
        swap_mib=flavor.swap_mib if swap is None else swap.mib,
        swap_bus=None if swap is None else swap.bus,
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
