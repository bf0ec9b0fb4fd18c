# SPDX-License-Identifier: Apache-2.0
"""Schemas of the responses of the operator API, for its OpenAPI document; tests hold all responses to them."""

from collections.abc import Mapping

from kilonova.api.schemas.types import JSONDict
from kilonova.model.job import JobState
from kilonova.model.saved_plan import PLANNED_KINDS, MoveState, PlanKind, PlanState

JSON, TEXT, EVENTS = "application/json", "text/plain", "text/event-stream"
_ANY: JSONDict = {}
_STRING: JSONDict = {"type": "string"}
_MAYBE: JSONDict = {"type": ["string", "null"]}
_WHOLE: JSONDict = {"type": "integer"}
_FLAG: JSONDict = {"type": "boolean"}
_NUMBER: JSONDict = {"type": "number"}
_OBJECT: JSONDict = {"type": "object"}
_STRINGS: JSONDict = {"type": "array", "items": _STRING}
_OBJECTS: JSONDict = {"type": "array", "items": _OBJECT}


def _record(optional: Mapping[str, JSONDict] | None = None, **required: JSONDict) -> JSONDict:
    """Return the schema of an object. Further fields may be added in later releases."""
    return {"type": "object", "properties": {**required, **(optional or {})}, "required": list(required)}


def _list(items: JSONDict) -> JSONDict:
    return {"type": "array", "items": items}


def _named(name: str) -> JSONDict:
    return {"$ref": f"#/components/schemas/{name}"}


def _ok(schema: JSONDict) -> dict[str, dict[str, JSONDict]]:
    return {"200": {JSON: schema}}


FAULT: JSONDict = {
    "type": "object",
    "description": "A fault in Nova's format: its name, with code and message.",
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": _record(code=_WHOLE, message=_STRING),
}
#: Schemas that several responses share, by name.
TYPES: Mapping[str, JSONDict] = {
    "Job": _record(
        {"result": _ANY},
        id=_STRING,
        kind=_STRING,
        state={"enum": [state.value for state in JobState]},
        parameters=_OBJECT,
        progress={"type": "number", "minimum": 0, "maximum": 1},
        message=_STRING,
        failure=_MAYBE,
        cancelling=_FLAG,
        attempt=_WHOLE,
        process=_MAYBE,
        project_id=_STRING,
        user_id=_STRING,
        request_id=_STRING,
        created_at=_STRING,
        started_at=_MAYBE,
        finished_at=_MAYBE,
    ),
    "Workflow": _record(
        {"steps": _OBJECTS, "failure": {"type": ["object", "null"]}},
        id=_STRING,
        kind=_STRING,
        server_id=_MAYBE,
        step=_STRING,
        state=_STRING,
        undoing=_FLAG,
        created_at=_MAYBE,
        age_seconds=_WHOLE,
    ),
    "Change": _record({"deleted": _FLAG}, kind=_STRING, id=_STRING),
    "Event": _record({"omitted": _WHOLE}, seq=_WHOLE, at=_STRING, changes=_list(_named("Change"))),
    "Plan": _record(
        {"moves": _list(_named("Move"))},
        id=_STRING,
        kind={"enum": [kind.value for kind in PlanKind]},
        state={"enum": [state.value for state in PlanState]},
        seq=_WHOLE,
        request=_OBJECT,
        progress={"type": "object", "additionalProperties": _WHOLE},
        waves=_WHOLE,
        gib=_NUMBER,
        gib_done=_NUMBER,
        stays=_OBJECTS,
        replans=_WHOLE,
        message=_STRING,
        process=_MAYBE,
        created_at=_STRING,
        started_at=_MAYBE,
        finished_at=_MAYBE,
    ),
    "Move": _record(
        {"from": _STRING},
        server=_STRING,
        name=_STRING,
        to=_MAYBE,
        wave=_WHOLE,
        kind={"enum": [kind.value for kind in PLANNED_KINDS]},
        live=_FLAG,
        gib=_NUMBER,
        state={"enum": [state.value for state in MoveState]},
        reason=_MAYBE,
        migration=_MAYBE,
        request_id=_MAYBE,
        started_at=_MAYBE,
        finished_at=_MAYBE,
    ),
    "Reason": _record(rule=_STRING, reason=_STRING, hosts=_WHOLE),
    "ReadOnly": _record(enabled=_FLAG, configured=_FLAG, reason=_MAYBE, since=_MAYBE),
    "Health": _record(
        healthy=_FLAG,
        checks=_list(_record(name=_STRING, healthy=_FLAG, problem=_MAYBE)),
        process=_STRING,
        release=_STRING,
        schema=_STRING,
        read_only=_FLAG,
        waiting_writes=_WHOLE,
        periodic_tasks=_OBJECTS,
    ),
    "Host": _record(host=_STRING, state={"enum": ["up", "down"]}, status=_STRING, hypervisors=_OBJECTS),
    "Decision": _record(
        request_id=_STRING, created_at=_MAYBE, survivors=_WHOLE, steps=_OBJECTS, ranked=_OBJECTS, chosen=_ANY
    ),
}
_JOB = _record(job=_named("Job"))
_PLAN = _record(plan=_named("Plan"))
_WORKFLOW = _record(workflow=_named("Workflow"))
_CAPACITY = _record(
    seq=_WHOLE,
    fits={"type": "object", "additionalProperties": {"type": ["integer", "null"]}},
    next=_list(_record(flavor=_STRING, reasons=_list(_named("Reason")))),
)
_WHOLES: JSONDict = _list(_WHOLE)
_USAGE = _record(
    seq=_WHOLE,
    version=_STRING,
    whole=_FLAG,
    hosts=_STRINGS,
    nodes=_STRINGS,
    zones=_STRINGS,
    up=_list(_FLAG),
    disabled=_list(_FLAG),
    servers=_WHOLES,
    resources={"type": "object", "additionalProperties": _record(capacity=_WHOLES, used=_WHOLES)},
)
_VERSIONS = _ok(_record(versions=_OBJECTS))
#: (method, path) → status → media type → schema.
RESPONSES: Mapping[tuple[str, str], Mapping[str, Mapping[str, JSONDict]]] = {
    ("GET", "/"): _VERSIONS,
    ("GET", "/v1"): _VERSIONS,
    ("POST", "/v1/capacity"): _ok(_CAPACITY),
    ("GET", "/v1/changes"): {
        "200": {
            EVENTS: _STRING,
            JSON: _record(seq=_WHOLE, reload=_FLAG, events=_list(_named("Event"))),
        }
    },
    ("GET", "/v1/decisions/{name}"): _ok(_record(decisions=_list(_named("Decision")))),
    ("POST", "/v1/drain"): _ok(_record(seq=_WHOLE, moves=_OBJECTS, stays=_OBJECTS)),
    ("POST", "/v1/explain"): _ok(_record(fits=_FLAG, seq=_WHOLE, servers=_OBJECTS, rules=_OBJECTS)),
    ("GET", "/v1/health"): _ok(_record(health=_named("Health"))),
    ("GET", "/v1/hosts"): _ok(_record({"hosts_links": _OBJECTS}, hosts=_list(_named("Host")))),
    ("GET", "/v1/hosts/usage"): _ok(_USAGE),
    ("GET", "/v1/hosts/{host}/images"): _ok(_record(host=_STRING, images=_OBJECTS)),
    ("GET", "/v1/isolation"): _ok(_record(isolation=_record(clean=_FLAG, pools=_OBJECTS, findings=_OBJECTS))),
    ("GET", "/v1/jobs"): _ok(_record({"jobs_links": _OBJECTS}, jobs=_list(_named("Job")))),
    ("POST", "/v1/jobs"): {"202": {JSON: _JOB}},
    ("GET", "/v1/jobs/{uuid}"): _ok(_JOB),
    ("DELETE", "/v1/jobs/{uuid}"): {"202": {JSON: _JOB}, "204": {}},
    ("GET", "/v1/metrics"): {"200": {TEXT: _STRING, "application/openmetrics-text": _STRING}},
    ("GET", "/v1/openapi.json"): _ok(_record(openapi=_STRING, info=_OBJECT, paths=_OBJECT, components=_OBJECT)),
    ("GET", "/v1/options"): _ok(_record(options={"type": "object", "additionalProperties": _OBJECT})),
    ("GET", "/v1/plans"): _ok(_record({"plans_links": _OBJECTS}, plans=_list(_named("Plan")))),
    ("POST", "/v1/plans"): {"201": {JSON: _PLAN}},
    ("GET", "/v1/plans/{uuid}"): _ok(_PLAN),
    ("DELETE", "/v1/plans/{uuid}"): {"204": {}},
    **{("POST", f"/v1/plans/{{uuid}}/{act}"): {"202": {JSON: _PLAN}} for act in ("apply", "pause", "resume", "cancel")},
    ("POST", "/v1/preview"): {
        **_ok(_record(seq=_WHOLE, violations=_WHOLE, rules=_OBJECTS, servers=_OBJECTS, requests=_OBJECT)),
        "202": {JSON: _JOB},
    },
    ("GET", "/v1/read-only"): _ok(_record(read_only=_named("ReadOnly"))),
    ("PUT", "/v1/read-only"): _ok(_record(read_only=_named("ReadOnly"))),
    ("GET", "/v1/servers/count"): _ok(_record(count=_WHOLE)),
    ("PUT", "/v1/servers/{server_id}/hints"): _ok(_record(hints=_OBJECT)),
    ("POST", "/v1/servers/{server_id}/leave-group"): {"204": {}},
    ("GET", "/v1/stray-ports"): _ok(_record({"stray_ports_links": _OBJECTS}, stray_ports=_OBJECTS)),
    ("POST", "/v1/stray-ports/remove"): {"204": {}},
    ("GET", "/v1/strays"): _ok(_record({"strays_links": _OBJECTS}, strays=_OBJECTS)),
    ("POST", "/v1/strays/remove"): {"202": {JSON: _OBJECT}},
    ("GET", "/v1/workflows"): _ok(_record({"workflows_links": _OBJECTS}, workflows=_list(_named("Workflow")))),
    ("GET", "/v1/workflows/{uuid}"): _ok(_WORKFLOW),
    ("POST", "/v1/workflows/{uuid}/retry"): {"202": {JSON: _WORKFLOW}},
    ("POST", "/v1/workflows/{uuid}/abandon"): _ok(_record(abandoned=_OBJECT)),
}
