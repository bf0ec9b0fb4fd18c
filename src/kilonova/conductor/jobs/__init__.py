# SPDX-License-Identifier: Apache-2.0
"""Jobs: long computations for operators, in processes of their own beside the control process (ADR 42)."""
