# SPDX-License-Identifier: Apache-2.0
"""Real guests: QEMU by libvirt. Only ``driver.py`` and what it imports with effects needs libvirt-python."""
