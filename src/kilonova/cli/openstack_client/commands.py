# SPDX-License-Identifier: Apache-2.0
"""The commands ``openstack scheduler …``; ``pyproject.toml`` names each as an entry point."""

from kilonova.cli.openstack_client.bridge import command

Explain = command("explain")
Whatif = command("whatif")
Top = command("top")
Capacity = command("capacity")
Drain = command("drain")
Rebalance = command("rebalance")
Forecast = command("forecast")
PlanList = command("plan", "list")
PlanShow = command("plan", "show")
PlanApply = command("plan", "apply")
PlanPause = command("plan", "pause")
PlanResume = command("plan", "resume")
PlanCancel = command("plan", "cancel")
PlanDelete = command("plan", "delete")
MaintenanceBegin = command("maintenance", "begin")
MaintenanceEnd = command("maintenance", "end")
HostsEvacuate = command("hosts", "evacuate")
Diff = command("diff")
PreviewAggregate = command("preview", "aggregate")
PreviewHost = command("preview", "host")
JobsList = command("jobs", "list")
JobsShow = command("jobs", "show")
JobsCancel = command("jobs", "cancel")
