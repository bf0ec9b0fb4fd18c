# SPDX-License-Identifier: Apache-2.0
"""Log output of all processes: format and destination.

In: records of the standard library's ``logging``, also from Keystone and Glance. Out: one line of limited length for
each record, and a traceback of limited length, to standard error or to a file that is rotated by size.
Forbidden here: all other packages of kilonova.
"""
