# SPDX-License-Identifier: Apache-2.0
"""Description of a guest, and the libvirt XML made from it. Nothing here has side effects."""
