# SPDX-License-Identifier: Apache-2.0
"""Data model: frozen dataclasses and enums that all other packages use.

The package imports no other package of Kilonova. Forbidden here: I/O, clocks, randomness, wire names of the API.
"""
