# SPDX-License-Identifier: Apache-2.0
"""Hypervisors: ``base`` says what each must do; no driver imports another."""
