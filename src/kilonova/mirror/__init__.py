# SPDX-License-Identifier: Apache-2.0
"""The mirror: the scheduler's in-memory copy of the cloud, kept up to date by the change log.

In: commits, in order. Out: host and provider tables. Forbidden here: scheduling decisions and database writes.
"""
