# SPDX-License-Identifier: Apache-2.0
"""Driver for real guests: QEMU through libvirt.

Only ``driver.py`` and modules with side effects that it imports need libvirt-python.
"""
