# SPDX-License-Identifier: Apache-2.0
"""The scheduler's copy of the cloud in memory, kept in step with the database through the change log.

In: commits, in order. Out: host and provider tables. Forbidden here: deciding, and writing to the database.
"""
