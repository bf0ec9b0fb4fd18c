# SPDX-License-Identifier: Apache-2.0
"""NUMA cells and PCI devices: requests of a server, fit on a host, and choice of cells, CPUs and devices."""
