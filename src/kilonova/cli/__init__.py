# SPDX-License-Identifier: Apache-2.0
"""The ``kilonova`` command: the only place that wires parts together.

In: arguments and configuration files. Out: processes, console output, exit codes (2 bad input, 1 failure). Forbidden
here: rules, SQL, HTTP handlers. One command a module, imported only when it runs.
"""
