# SPDX-License-Identifier: Apache-2.0
"""Audit of isolation: proves which servers the isolation rules and Nova's legacy mechanisms allow on which hosts.

In: aggregates with their metadata, flavors, images and projects. Out: the hosts that each server may use, and leaks.
"""
