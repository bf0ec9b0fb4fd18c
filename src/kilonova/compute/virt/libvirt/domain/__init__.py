# SPDX-License-Identifier: Apache-2.0
"""Descriptions of guests, and the libvirt XML that is made from these descriptions. No guest is created or changed."""
