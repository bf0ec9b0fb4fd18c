# SPDX-License-Identifier: Apache-2.0
"""Kilonova: OpenStack Compute and Placement with decisions on columns and an atomic claim."""

__version__ = "0.1.0"
