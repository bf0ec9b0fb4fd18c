# SPDX-License-Identifier: Apache-2.0
"""The nouns: frozen dataclasses and enums that every other package speaks.

In: nothing. Out: plain values.
Forbidden here: I/O, clocks, randomness, wire names of the API.
"""
