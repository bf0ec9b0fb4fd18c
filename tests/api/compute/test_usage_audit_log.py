# SPDX-License-Identifier: Apache-2.0
from datetime import datetime

from api.compute_cloud import Cloud
from kilonova.db import usage_audits
from kilonova.model.audit_periods import Period


def test_the_audit_log_shows_the_progress_of_the_audit_of_a_period(cloud: Cloud) -> None:
    assert cloud.admin.get("/os-instance_usage_audit_log").body["instance_usage_audit_logs"]["num_hosts"] == 0
    for host in ("node2", "node1"):
        cloud.add_host(host)
    period = Period(datetime.fromisoformat("2026-02-01"), datetime.fromisoformat("2026-03-01"))
    stages = (
        (lambda _: None, 0, 0, ["node1", "node2"], "0 of 2 hosts done. 0 errors."),
        (lambda tx: usage_audits.begin(tx, period), 0, 2, [], "0 of 2 hosts done. 0 errors."),
        (lambda tx: usage_audits.take(tx, period, 10), 2, 0, [], "ALL hosts done. 0 errors."),
    )
    for work, done, running, not_run, status in stages:
        cloud.database.write(work)
        for written in ("2026-03-15 12:00:00", "2026-03-15%2012:00:00.123456"):
            log = cloud.admin.get(f"/os-instance_usage_audit_log/{written}").body["instance_usage_audit_log"]
            assert log == {
                "period_beginning": "2026-02-01 00:00:00", "period_ending": "2026-03-01 00:00:00", "num_hosts": 2,
                "num_hosts_done": done, "num_hosts_running": running, "num_hosts_not_run": len(not_run),
                "hosts_not_run": not_run, "total_instances": 0, "total_errors": 0, "overall_status": status, "log": {},
            }  # fmt: skip
    for invalid in ("yesterday", "2026-13-01 00:00:00", "0001-01-01 00:00:00", "2026-03-15T12:00:00"):
        assert cloud.admin.get(f"/os-instance_usage_audit_log/{invalid}").status == 400
