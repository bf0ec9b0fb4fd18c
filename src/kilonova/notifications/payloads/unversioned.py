# SPDX-License-Identifier: Apache-2.0
"""Payloads of unversioned notifications: plain dictionaries with the keys and value formats of Nova."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from kilonova.conductor.workflow_engine.run import Failure
from kilonova.model.audit_periods import Period
from kilonova.model.image_properties import present_name
from kilonova.model.instance import Instance
from kilonova.model.network_info import NetworkInfo
from kilonova.model.request_spec import RequestSpec
from kilonova.notifications.payloads.faults import name_of


def server(instance: Instance, interfaces: NetworkInfo, image_url: str) -> dict[str, Any]:
    """Return the fields of every server notification. ``image_url``: URL of the server's image."""
    flavor = instance.flavor
    properties = {present_name(name): value for name, value in instance.image_properties.items()}
    return {
        "tenant_id": instance.project_id,
        "user_id": instance.user_id,
        "instance_id": instance.uuid,
        "display_name": instance.name,
        "reservation_id": instance.reservation_id,
        "hostname": instance.hostname,
        "instance_type": flavor.name,
        "instance_type_id": None,
        "instance_flavor_id": flavor.flavor_id,
        "architecture": properties.get("hw_architecture"),
        "memory_mb": flavor.memory_mib,
        "disk_gb": flavor.root_gib + flavor.ephemeral_gib,
        "vcpus": flavor.vcpus,
        "root_gb": flavor.root_gib,
        "ephemeral_gb": flavor.ephemeral_gib,
        "host": instance.host,
        "node": instance.node,
        "availability_zone": instance.availability_zone,
        "cell_name": "",
        "created_at": _spaced(instance.created_at),
        "terminated_at": _with_fraction(instance.terminated_at),
        "deleted_at": _with_fraction(instance.deleted_at),
        "launched_at": _with_fraction(instance.launched_at),
        "image_ref_url": image_url,
        "os_type": properties.get("os_type"),
        "kernel_id": properties.get("kernel_id", ""),
        "ramdisk_id": properties.get("ramdisk_id", ""),
        "state": instance.vm_state.value,
        "state_description": "" if instance.task_state is None else instance.task_state.value,
        "progress": instance.progress or "",
        "access_ip_v4": instance.access_ip_v4,
        "access_ip_v6": instance.access_ip_v6,
        "fixed_ips": list(_addresses(interfaces)),
        "image_meta": dict(instance.image_properties),
        "metadata": dict(instance.metadata),
    }


def _addresses(interfaces: NetworkInfo) -> Iterator[dict[str, Any]]:
    for vif in interfaces:
        for subnet, fixed in vif.addresses:
            yield {
                "address": fixed.address,
                "type": "fixed",
                "version": subnet.version,
                "meta": {},
                "floating_ips": [
                    {"address": outer, "type": "floating", "version": 4, "meta": {}} for outer in fixed.floating
                ],
                "label": vif.network.label,
                "vif_mac": vif.mac,
            }


def states(
    instance: Instance, old_state: str | None, old_task: str | None, period: Period, old_name: str | None
) -> dict[str, Any]:
    """Return the additional fields of ``compute.instance.update``."""
    said = {
        "old_state": old_state,
        "state": instance.vm_state.value,
        "old_task_state": old_task,
        "new_task_state": None if instance.task_state is None else instance.task_state.value,
        "audit_period_beginning": _with_fraction(period.begin),
        "audit_period_ending": _with_fraction(period.end),
    }
    return said if old_name is None else {**said, "old_display_name": old_name}


def audit_period(period: Period) -> dict[str, str]:
    """Return the additional fields of ``compute.instance.exists``."""
    return {"audit_period_beginning": _spaced(period.begin), "audit_period_ending": _spaced(period.end)}


def fault(failure: Failure) -> dict[str, Any]:
    """Return the additional fields of an error notification."""
    return {"message": failure.message, "code": failure.code, "exception": name_of(failure)}


def request(spec: RequestSpec) -> dict[str, Any]:
    """Return a scheduler request in Nova's form: the properties of its first server, and the number of servers."""
    flavor, image = spec.flavor, spec.image
    return {
        "image": {} if image is None else {"id": image.id, "name": image.name, "properties": dict(image.properties)},
        "instance_type": {
            "flavorid": flavor.flavor_id,
            "name": flavor.name,
            "memory_mb": flavor.memory_mib,
            "vcpus": flavor.vcpus,
            "root_gb": flavor.root_gib,
            "ephemeral_gb": flavor.ephemeral_gib,
            "swap": flavor.swap_mib,
            "extra_specs": dict(flavor.extra_specs),
        },
        "instance_properties": properties(spec),
        "num_instances": spec.num_instances,
    }


def properties(spec: RequestSpec) -> dict[str, Any]:
    """Return the ``instance_properties`` of a scheduler request, which describe its first server."""
    flavor = spec.flavor
    return {
        "uuid": spec.instance_uuids[0] if spec.instance_uuids else "",
        "project_id": spec.project_id,
        "user_id": spec.user_id,
        "availability_zone": spec.availability_zone,
        "memory_mb": flavor.memory_mib,
        "vcpus": flavor.vcpus,
        "root_gb": flavor.root_gib,
        "ephemeral_gb": flavor.ephemeral_gib,
    }


def _spaced(moment: datetime | None) -> str:
    """Format a time like ``str(datetime)``, as Nova does for some keys; "" for None."""
    return f"{moment:%Y-%m-%d %H:%M:%S}+00:00" if moment is not None else ""


def _with_fraction(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S.%f}" if moment is not None else ""
