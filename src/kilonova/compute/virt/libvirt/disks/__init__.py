# SPDX-License-Identifier: Apache-2.0
"""Disks of libvirt guests, the base images of these disks, and disk copies that are uploaded as images."""
