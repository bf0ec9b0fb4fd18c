# SPDX-License-Identifier: Apache-2.0
"""Workflows, one module each: facts, steps, and the states in which they leave the server. ``registry`` lists them."""
