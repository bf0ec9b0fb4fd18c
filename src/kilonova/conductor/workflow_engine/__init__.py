# SPDX-License-Identifier: Apache-2.0
"""Runs workflows: journals every step, parks without a thread, walks back, retries. Knows no kind of workflow."""
