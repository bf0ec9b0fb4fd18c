# SPDX-License-Identifier: Apache-2.0
"""The scheduler as a pure function: takes a host table and a request, returns ranked hosts and why others fail.

Forbidden here: clocks, random sources, logging, configuration files and I/O. Callers pass their values as arguments.
"""
