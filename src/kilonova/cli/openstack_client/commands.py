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
JobsList = command("jobs", "list")
JobsShow = command("jobs", "show")
JobsCancel = command("jobs", "cancel")
