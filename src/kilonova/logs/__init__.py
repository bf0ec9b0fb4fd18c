# SPDX-License-Identifier: Apache-2.0
"""What every process of Kilonova writes into its log, and where the log goes.

In: records of the standard library's ``logging``, also those of Keystone and Glance. Out: one bounded line a record,
with bounded tracebacks, to standard error or to a file that is rotated by size.
Forbidden here: everything else of kilonova.
"""
