# SPDX-License-Identifier: Apache-2.0
"""What agents and drivers keep on the disk of a host: folders, locks, images, and copies of disks that become images.

Below agents and drivers, and imports neither.
"""
