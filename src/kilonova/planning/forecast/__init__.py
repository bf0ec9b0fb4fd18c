# SPDX-License-Identifier: Apache-2.0
"""Forecasts: what the scheduler does with the servers of months or years, in virtual time.

::

    scenario ──▶ workload: all events, drawn from one seed ──▶ run of one policy on the hosts ──▶ outcome ──▶ report
"""
