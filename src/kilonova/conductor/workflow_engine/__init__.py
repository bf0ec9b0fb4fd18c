# SPDX-License-Identifier: Apache-2.0
"""The workflow engine: journals each step, waits for agents without a thread, retries, and rolls back.
It depends on no particular workflow.
"""
