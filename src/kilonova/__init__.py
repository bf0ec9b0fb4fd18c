# SPDX-License-Identifier: Apache-2.0
"""Kilonova: the OpenStack Compute and Placement APIs, with scheduling on NumPy columns and atomic claims of hosts."""

__version__ = "0.1.0"
