# SPDX-License-Identifier: Apache-2.0
"""Versions and numbers of fields of all payloads, which equal those of Nova."""

from dataclasses import fields

from kilonova.notifications.payloads import faults, resources, scheduling, servers
from kilonova.notifications.payloads.payload import Payload

#: Object → version and number of fields, as the last release of Nova has them.
VERSIONS: dict[str, tuple[str, int]] = {
    "AggregateCachePayload": ("1.0", 8),
    "AggregatePayload": ("1.1", 5),
    "AuditPeriodPayload": ("1.0", 2),
    "ComputeTaskPayload": ("1.0", 4),
    "DestinationPayload": ("1.0", 4),
    "ExceptionPayload": ("1.1", 5),
    "FlavorPayload": ("1.4", 14),
    "ImageMetaPayload": ("1.0", 18),
    "InstanceActionPayload": ("1.9", 37),
    "InstanceActionRebuildPayload": ("1.10", 38),
    "InstanceActionRescuePayload": ("1.4", 38),
    "InstanceActionResizePrepPayload": ("1.4", 38),
    "InstanceActionSnapshotPayload": ("1.10", 38),
    "InstanceCreatePayload": ("1.13", 41),
    "InstanceExistsPayload": ("2.1", 37),
    "InstancePayload": ("1.9", 36),
    "InstanceStateUpdatePayload": ("1.0", 4),
    "InstanceUpdatePayload": ("2.1", 40),
    "IpPayload": ("1.0", 7),
    "KeypairPayload": ("1.0", 5),
    "RequestSpecPayload": ("1.1", 18),
    "SchedulerRetriesPayload": ("1.0", 2),
    "ServerGroupPayload": ("1.1", 9),
    "ServiceStatusPayload": ("1.1", 11),
}


def kinds() -> dict[str, type[Payload]]:
    return {
        name: kind
        for module in (resources, servers, scheduling, faults)
        for name, kind in vars(module).items()
        if isinstance(kind, type) and issubclass(kind, Payload) and kind is not Payload
    }


def test_every_payload_has_its_version_and_fields() -> None:
    assert {name: (kind.VERSION, len(fields(kind))) for name, kind in kinds().items()} == VERSIONS
