# SPDX-License-Identifier: Apache-2.0
"""Capabilities and resources of a libvirt host, and its report to the scheduler."""
