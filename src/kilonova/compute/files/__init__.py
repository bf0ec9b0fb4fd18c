# SPDX-License-Identifier: Apache-2.0
"""Files that agents and drivers keep on the disk of a host: folders, locks, images, disk copies for upload.

This package is below agents and drivers and imports neither.
"""
