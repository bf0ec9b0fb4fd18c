# SPDX-License-Identifier: Apache-2.0
"""Scenarios: a cluster and a workload in a YAML file, for simulated hosts, tests and demonstrations.

In: a file, an engine. Out: hosts to simulate, and where the scheduler puts the servers. No database, no network.
"""
