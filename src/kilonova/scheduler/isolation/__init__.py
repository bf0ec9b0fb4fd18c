# SPDX-License-Identifier: Apache-2.0
"""Only these servers on those hosts, and nowhere else: the rules that say so, and the proof that it holds.

In: metadata of aggregates, flavors, images, projects. Out: which hosts a server may use, and what leaks.
"""
