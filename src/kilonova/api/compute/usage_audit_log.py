# SPDX-License-Identifier: Apache-2.0
"""Progress of usage audits. An audit sends ``instance.exists`` for each server that existed in a period.

The option ``[DEFAULT] instance_usage_audit`` turns audits on.
"""

from datetime import datetime
from typing import Any

from kilonova.api.http import Context, Endpoint, Reply, Request, Routes
from kilonova.api.policy import ADMIN, rule
from kilonova.api.schemas import queries
from kilonova.db import services, usage_audits
from kilonova.deadline import heeding
from kilonova.errors import InvalidRequest
from kilonova.model.host import COMPUTE

_ALL, _ONE = "/os-instance_usage_audit_log", "/os-instance_usage_audit_log/{before}"
_P = "os_compute_api:os-instance-usage-audit-log"
RULES = (
    rule(f"{_P}:list", ADMIN, "Show the audit of the last period", ("GET", _ALL)),
    rule(f"{_P}:show", ADMIN, "Show the audit of an earlier period", ("GET", _ONE)),
)
_FORMATS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M:%S.%f")


def show_last(ctx: Context, request: Request) -> Reply:
    """GET /os-instance_usage_audit_log.  Shows the audit of the last completed period."""
    del request
    ctx.authorize(f"{_P}:list")
    return Reply(200, {"instance_usage_audit_logs": _log(ctx, ctx.now())})


def show_before(ctx: Context, request: Request) -> Reply:
    """GET /os-instance_usage_audit_log/{before}.  Shows the audit of the last period that ended before this time.

    Errors: 400.
    """
    ctx.authorize(f"{_P}:show")
    return Reply(200, {"instance_usage_audit_log": _log(ctx, _read(request.path["before"]))})


def _read(text: str) -> datetime:
    for each in _FORMATS:
        try:
            moment = datetime.strptime(text, each)  # noqa: DTZ007 - naive UTC like all times here
        except ValueError:
            continue
        if moment.year > 2:  # in years 1 and 2, the period before this time could begin before datetime.min
            return moment
    raise InvalidRequest(f"Invalid timestamp for date {text}")


def _log(ctx: Context, before: datetime) -> dict[str, Any]:
    """Return the progress of the audit of the last period that ended before ``before``.

    Kilonova audits the whole cloud at once, so all hosts have the same status.
    """
    period = ctx.backend.settings.periodic_tasks.usage_audit_period.last_completed(before)
    with ctx.read() as connection:
        hosts = sorted(service.host for service in heeding(services.list_all(connection, binary=COMPUTE)))
        audit = usage_audits.find(connection, period)
    done = len(hosts) if audit is not None and audit.is_over else 0
    running = len(hosts) if audit is not None and not audit.is_over else 0
    share = "ALL" if done == len(hosts) else f"{done} of {len(hosts)}"
    return {
        "period_beginning": str(period.begin),
        "period_ending": str(period.end),
        "num_hosts": len(hosts),
        "num_hosts_done": done,
        "num_hosts_running": running,
        "num_hosts_not_run": len(hosts) - done - running,
        "hosts_not_run": hosts if audit is None else [],
        "total_instances": 0 if audit is None else audit.servers,
        "total_errors": 0,
        "overall_status": f"{share} hosts done. 0 errors.",
        "log": {},
    }


ROUTES: Routes = {
    _ALL: {"GET": Endpoint(show_last, query=queries.NONE)},
    _ONE: {"GET": Endpoint(show_before, query=queries.NONE)},
}
