# SPDX-License-Identifier: Apache-2.0
"""The database engine: connections, the one writer, transactions, prepared statements and tables. Knows no resource."""
