# SPDX-License-Identifier: Apache-2.0
"""Format, minimum sizes and properties of a new image that is made from a server."""

from collections.abc import Collection, Mapping

from kilonova.model.image import Image
from kilonova.model.instance import Instance
from kilonova.model.new_image import NewImage

#: Properties that describe the data or the origin of the server's base image; a new image does not inherit them.
_OF_ITS_DATA = frozenset(
    {
        "img_signature", "img_signature_hash_method", "img_signature_key_type", "img_signature_certificate_uuid",
        "cinder_encryption_key_id", "cinder_encryption_key_deletion_policy", "backup_type",
    }
)  # fmt: skip
#: Prefixes of properties that are reserved by the image service.
_RESERVED = ("os_glance_", "owner_specified.")
SNAPSHOT, BACKUP = "snapshot", "backup"


def image_of_server(
    image_id: str,
    name: str,
    instance: Instance,
    base: Image | None,
    user_id: str,
    not_inherited: Collection[str],
    given: Mapping[str, str],
    image_type: str = SNAPSHOT,
) -> NewImage:
    """Return the description of a new image of a server.

    ``base``: the image of the server, as it was when the server was created from it. ``not_inherited``: names of
    properties that the new image does not inherit from that image. ``given``: properties from the request; they
    override inherited properties, but not the properties that identify the server and the owner.
    """
    kept = {
        key: value
        for key, value in instance.image_properties.items()
        if key not in _OF_ITS_DATA and key not in not_inherited and not key.startswith(_RESERVED)
    }
    own = {"instance_uuid": instance.uuid, "user_id": user_id}
    if image_type != SNAPSHOT or "image_type" not in given:
        own["image_type"] = image_type  # the rotation of backups finds the images by this property
    if instance.image_ref:
        own["base_image_ref"] = instance.image_ref
    base = base or Image(instance.image_ref or "")
    return NewImage(
        image_id,
        name,
        base.disk_format or "raw",
        base.container_format or "bare",
        base.min_memory_mib,
        max(base.min_disk_gib, instance.flavor.root_gib),
        {**kept, **given, **own},
    )
