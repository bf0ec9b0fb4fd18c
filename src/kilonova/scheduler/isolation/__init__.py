# SPDX-License-Identifier: Apache-2.0
"""Audit of isolation: proves which servers the isolation rules and Nova's legacy mechanisms allow on which hosts.

In: metadata of aggregates, flavors, images, projects. Out: the hosts that a server may use, and the leaks.
"""
