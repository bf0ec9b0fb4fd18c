# SPDX-License-Identifier: Apache-2.0
"""The workflow engine: journals each step, waits for agents without blocking a thread, retries, and rolls back.
The engine depends on no particular workflow.
"""
