# SPDX-License-Identifier: Apache-2.0
"""What libvirt is told of a guest: a description of it, and the XML that is made of that. Nothing here has effects."""
