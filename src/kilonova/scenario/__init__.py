# SPDX-License-Identifier: Apache-2.0
"""Scenarios: a cluster and a workload in a YAML file, for simulated hosts, tests and demonstrations.

In: a file and a scheduling engine. Out: the hosts to simulate, and the host chosen for each server. Uses no database
and no network.
"""
