# SPDX-License-Identifier: Apache-2.0
"""Scenarios: a cluster and a workload in a YAML file, for simulated hosts, tests, benchmarks and demonstrations."""
