# SPDX-License-Identifier: Apache-2.0
"""Metadata of a guest as files, in the two layouts that guests expect: OpenStack's and EC2's.

Source: OpenStack's metadata reference, which names the additions of each version.
"""

import base64
import os
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from kilonova.model.config_drive import ConfigDrive
from kilonova.model.instance import GuestSpec
from kilonova.model.network_data import first_fixed_address, first_floating_address, network_data, tagged_devices

#: All versions of OpenStack's layout, oldest first; ``latest`` stands for the last of them.
VERSIONS = (
    "2012-08-10", "2013-04-04", "2013-10-17", "2015-10-15", "2016-06-30", "2016-10-06", "2017-02-22", "2018-08-27",
    "2020-10-14", "2025-04-04",
)  # fmt: skip
#: Versions of the layout; each is named after the field or file that it introduced.
_RANDOM_SEED, _VENDOR_DATA, _NETWORK_DATA, _DEVICES, _VENDOR_DATA_2, _DEDICATED_CPUS = (
    "2013-04-04", "2013-10-17", "2015-10-15", "2016-06-30", "2016-10-06", "2020-10-14",
)  # fmt: skip
_LATEST = "latest"
_EC2_VERSIONS = ("2009-04-04", _LATEST)
_SEED_BYTES = 512


def files_of(guest: GuestSpec, drive: ConfigDrive) -> dict[str, bytes]:
    """Return the metadata of a guest, as its config drive contains them: path → content."""
    seed = base64.b64encode(os.urandom(_SEED_BYTES)).decode("ascii")
    user_data = base64.b64decode(guest.user_data) if guest.user_data else None
    found = {}
    for version in (*VERSIONS, _LATEST):
        since = VERSIONS[-1] if version == _LATEST else version
        for name, content in _openstack_files(guest, drive, since, seed):
            found[f"openstack/{version}/{name}"] = orjson.dumps(content)
        if user_data is not None:
            found[f"openstack/{version}/user_data"] = user_data
    for version in _EC2_VERSIONS:
        found[f"ec2/{version}/meta-data.json"] = orjson.dumps(_ec2(guest, drive))
        if user_data is not None:
            found[f"ec2/{version}/user-data"] = user_data
    return found


def _openstack_files(guest: GuestSpec, drive: ConfigDrive, version: str, seed: str) -> Iterator[tuple[str, Any]]:
    yield "meta_data.json", _meta_data(guest, drive, version, seed)
    if version >= _VENDOR_DATA:
        yield "vendor_data.json", dict(drive.vendor_data)
    if version >= _NETWORK_DATA:
        yield "network_data.json", network_data(guest.vifs)
    if version >= _VENDOR_DATA_2:
        yield "vendor_data2.json", {"static": dict(drive.vendor_data)}


def _meta_data(guest: GuestSpec, drive: ConfigDrive, version: str, seed: str) -> Mapping[str, Any]:
    data: dict[str, Any] = {
        "uuid": guest.uuid,
        "name": drive.display_name,
        "hostname": _host_name(guest, drive),
        "launch_index": drive.launch_index,
        "availability_zone": drive.availability_zone,
    }
    if guest.metadata:
        data["meta"] = dict(guest.metadata)
    if drive.admin_pass is not None:
        data["admin_pass"] = drive.admin_pass
    if (key := drive.key) is not None:
        data["public_keys"] = {key.name: key.data}
        data["keys"] = [{"name": key.name, "type": key.type, "data": key.data}]
    if version >= _RANDOM_SEED:
        data["random_seed"] = seed
    if version >= _NETWORK_DATA:
        data["project_id"] = guest.project_id
    if version >= _DEVICES:
        data["devices"] = tagged_devices(guest.vifs, version)
    if version >= _DEDICATED_CPUS:
        data["dedicated_cpus"] = sorted(vcpu for cell in guest.reserved.cells for vcpu, _ in cell.pinning)
    return data


def _ec2(guest: GuestSpec, drive: ConfigDrive) -> Mapping[str, Any]:
    host_name = _host_name(guest, drive)
    data: dict[str, Any] = {
        "ami-id": f"ami-{(guest.image_ref or '0' * 8)[:8]}",
        "ami-launch-index": drive.launch_index,
        "ami-manifest-path": "FIXME",  # a fixed value, as in Nova's EC2 metadata
        "block-device-mapping": {"ami": "vda", "root": "/dev/vda"},
        "hostname": host_name,
        "instance-action": "none",
        "instance-id": f"i-{guest.name.rpartition('-')[2]}",
        "instance-type": drive.flavor_name,
        "local-hostname": host_name,
        "local-ipv4": first_fixed_address(guest.vifs),
        "placement": {"availability-zone": drive.availability_zone},
        "public-hostname": host_name,
        "public-ipv4": first_floating_address(guest.vifs),
        "reservation-id": drive.reservation_id,
        "security-groups": [name for vif in guest.vifs for name in vif.security_groups],
    }
    if drive.key is not None:
        data["public-keys"] = {"0": {"openssh-key": drive.key.data}}
    return data


def _host_name(guest: GuestSpec, drive: ConfigDrive) -> str:
    return guest.hostname if "." in guest.hostname or not drive.domain else f"{guest.hostname}.{drive.domain}"
