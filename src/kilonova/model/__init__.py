# SPDX-License-Identifier: Apache-2.0
"""Data model: frozen dataclasses and enums that all other packages use.

In: nothing. Out: plain values.
Forbidden here: I/O, clocks, randomness, wire names of the API.
"""
