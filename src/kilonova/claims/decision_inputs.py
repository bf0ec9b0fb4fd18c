# SPDX-License-Identifier: Apache-2.0
"""Inputs of decisions that are not in the change log. Inputs and change log together make decisions replayable."""

import zlib
from typing import Any

import orjson

from kilonova.db import request_specs
from kilonova.db.change_log.device_json import share_as_json, share_from_json
from kilonova.mirror.state import Assumption
from kilonova.model.request_spec import RequestSpec
from kilonova.records import dataclass, replace
from kilonova.scheduler.guests import GuestKind


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """Inputs of one request's scheduling decisions, which all use one snapshot of the cloud.

    ``spec``: the request as stored, before a resource query is made from flavor and image.
    ``limit``: number of ranked hosts. ``seq``: change-log number of the snapshot.
    ``taken_at``: current time for all rules, in epoch seconds.
    ``assumed``: claims that were uncommitted at that time. ``seed``: random seed, or None if no randomness was used.
    """

    spec: RequestSpec
    group_uuid: str | None
    limit: int
    seq: int
    taken_at: float
    assumed: tuple[Assumption, ...] = ()
    seed: int | None = None


def encode(inputs: DecisionInputs, configuration: str) -> bytes:
    """Encode decision inputs for the database, together with the digest of the scheduling configuration."""
    spec = inputs.spec
    body = {
        "configuration": configuration,
        "spec": request_specs.as_json(spec, inputs.group_uuid),
        "instances": spec.instance_uuids,
        "limit": inputs.limit,
        "seq": inputs.seq,
        "taken_at": inputs.taken_at,
        "seed": inputs.seed,
        "assumed": [
            (
                each.claim_id,
                {provider: dict(amounts) for provider, amounts in each.allocations.items()},
                each.host,
                each.node,
                each.group_uuid,
                None if each.guest is None else tuple(each.guest),
                each.node_uuid,
                None if each.devices is None else share_as_json(each.devices),
            )
            for each in inputs.assumed
        ],
    }
    return zlib.compress(orjson.dumps(body), 1)


def decode(stored: bytes) -> tuple[DecisionInputs, str]:
    """Decode stored decision inputs. Return them with the digest of the configuration at the time of the decision."""
    body = orjson.loads(zlib.decompress(stored))
    spec, group_uuid = request_specs.from_json(body["spec"])
    spec = replace(spec, instance_uuids=tuple(body["instances"]))
    assumed = tuple(_assumption(*each) for each in body["assumed"])
    inputs = DecisionInputs(spec, group_uuid, body["limit"], body["seq"], body["taken_at"], assumed, body["seed"])
    return inputs, body["configuration"]


def _assumption(
    claim_id: str,
    allocations: dict[str, dict[str, int]],
    host: str,
    node: str,
    group_uuid: str | None,
    guest: list[Any] | None,
    node_uuid: str,
    devices: dict[str, Any] | None,
) -> Assumption:
    kind = None if guest is None else GuestKind(guest[0], tuple((name, value) for name, value in guest[1]))
    share = None if devices is None else share_from_json(devices)
    return Assumption(claim_id, allocations, host, node, group_uuid, kind, node_uuid, share)
