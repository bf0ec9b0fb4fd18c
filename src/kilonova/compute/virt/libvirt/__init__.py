# SPDX-License-Identifier: Apache-2.0
"""Driver for real guests: QEMU through libvirt.

Only the modules that talk to libvirtd import libvirt-python. The modules that describe guests and disks do not need it.
"""
