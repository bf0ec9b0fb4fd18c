# SPDX-License-Identifier: Apache-2.0
"""What guests are given beside their disks: config drives, vendor data, and the images of their service."""
