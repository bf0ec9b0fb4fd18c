# SPDX-License-Identifier: Apache-2.0
from support.libvirt_node import libvirt_node

__all__ = ["libvirt_node"]
