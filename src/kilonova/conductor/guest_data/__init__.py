# SPDX-License-Identifier: Apache-2.0
"""Data for guests besides their disks: config drives, vendor data and image access."""
