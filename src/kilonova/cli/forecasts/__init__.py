# SPDX-License-Identifier: Apache-2.0
"""Files of forecasts: scenarios and policies in YAML, traces in CSV, and reports."""
