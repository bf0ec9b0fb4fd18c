# SPDX-License-Identifier: Apache-2.0
"""Files that agents and drivers keep on the disk of a host: folders, locks, images, disk copies for upload.

Agents and drivers import this package; it imports neither of them.
"""
