# SPDX-License-Identifier: Apache-2.0
"""The decision, pure: a table of hosts and a request in, a ranked list with a reason for every host passed over out.

Forbidden here: clocks, random sources, logging, configuration, any I/O. Those are arguments.
"""
