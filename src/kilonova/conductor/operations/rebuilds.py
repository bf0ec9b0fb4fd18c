# SPDX-License-Identifier: Apache-2.0
"""Make the guest of a server anew."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kilonova.conductor.operations.starting import Starter
from kilonova.conductor.workflows.rebuild import REBUILD, MadeOf, RebuildFacts, made_of
from kilonova.db import instances, quotas, request_specs
from kilonova.db.core.transaction import Transaction
from kilonova.errors import ConcurrentUpdate, OverQuota
from kilonova.identifiers import new_uuid
from kilonova.model.config_drive import PublicKey
from kilonova.model.image import Image
from kilonova.model.instance import Instance, VmState
from kilonova.model.quota import Limits, QuotaRequest, Usage
from kilonova.model.request_spec import StoredRequest
from kilonova.model.requester import Requester


class Rebuilds:
    """Rebuilds servers where they are."""

    def __init__(self, starter: Starter) -> None:
        self._starter = starter

    def rebuild(
        self,
        instance: Instance,
        request: StoredRequest,
        image: Image,
        who: Requester,
        *,
        user_data: str | None,
        values: Mapping[str, Any],
        key: PublicKey | None = None,
        trusted_certs: tuple[str, ...] = (),
        admin_pass: str | None = None,
        limits: Limits | None = None,
    ) -> None:
        """Start to make the guest of a server anew from ``image``.

        ``request``: what was asked for the server until now. ``values``: columns of the instance that change with it.
        ``key``: whose owner may log in. ``trusted_certs``: with which the image may be signed.
        ``admin_pass``: for a guest with a config drive; it is not stored.
        ``limits``: the quotas in force where they are not in the database.
        Raises: NotFound, UnexpectedTaskState, ConcurrentUpdate, OverQuota.
        """
        before = MadeOf.present(instance)
        asked = replace(request, user_data=user_data, key=key, trusted_certs=trusted_certs)
        new = _changed(instance, request, asked, image)
        key_name = values.get("key_name", instance.key_name)
        after = MadeOf(image.id, image.properties, key_name, before.request_spec_uuid if new is None else new.uuid)
        facts = RebuildFacts(
            instance.host or "",
            instance.node or "",
            runs=instance.vm_state is not VmState.STOPPED,
            new_image=image.id != instance.image_ref,
            before=before,
        )

        def begin(tx: Transaction) -> None:
            present = instances.get(tx.connection, instance.uuid)
            where = instance.host, instance.node, instance.vm_state
            if (present.host, present.node, present.vm_state) != where or MadeOf.present(present) != before:
                raise ConcurrentUpdate(f"Instance {instance.uuid} was changed meanwhile.")
            _require_quota(tx, present, values, self._starter.services.limits, limits)
            if new is not None:
                request_specs.insert(tx, [new])
            instances.change(tx, instance.uuid, **values)
            made_of(tx, instance.uuid, after, keep_request=True)

        if instance.config_drive:
            self._starter.services.config_drives.passwords.remember([instance.uuid], admin_pass)
        self._starter.start(REBUILD, facts, instance, who, begin)


def _changed(instance: Instance, before: StoredRequest, asked: StoredRequest, image: Image) -> StoredRequest | None:
    """Return what is asked for a server from now on, for itself alone; None where that is what was asked before."""
    if image == before.spec.image and asked == before:
        return None
    return replace(asked, uuid=new_uuid(), spec=replace(asked.spec, image=image, instance_uuids=(instance.uuid,)))


def _require_quota(
    tx: Transaction, instance: Instance, values: Mapping[str, Any], configured: Limits, limits: Limits | None
) -> None:
    """Raise OverQuota when the server would get more metadata than its project may give one."""
    count = len(values.get("metadata") or ())
    asked = QuotaRequest(instance.project_id, instance.user_id, Usage(), 1, 1, metadata_items=count, limits=limits)
    (granted,) = quotas.take(tx, [asked], configured)
    if isinstance(granted, OverQuota):
        raise granted
