# SPDX-License-Identifier: Apache-2.0
"""The pages of the dashboard: one module for each subject, with its routes."""
