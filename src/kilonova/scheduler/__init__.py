# SPDX-License-Identifier: Apache-2.0
"""The scheduler, a pure function: from a host table and a request it computes ranked hosts and reasons of rejections.

Forbidden here: clocks, random sources, logging, configuration files and I/O. Callers pass the current time, a random
generator and the options as arguments.
"""
