# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices: what a server asks for, whether a host can give it, and what exactly it takes."""
