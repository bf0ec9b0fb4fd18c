# SPDX-License-Identifier: Apache-2.0
"""The ``kilonova`` command. Only this package constructs the parts of a process and connects them.

In: arguments and configuration files. Out: processes, console output, exit codes (2 bad input, 1 failure). Forbidden
here: rules, SQL, HTTP handlers. Each command is a module, which is imported only when the command runs.
"""
