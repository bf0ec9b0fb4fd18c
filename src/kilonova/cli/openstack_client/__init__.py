# SPDX-License-Identifier: Apache-2.0
"""Plug-in of the stock client: ``openstack scheduler …`` runs the same code as ``kilonova …``."""
