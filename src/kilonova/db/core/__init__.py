# SPDX-License-Identifier: Apache-2.0
"""The database engine: connections, the writer, transactions, prepared statements and tables; no resource logic."""
