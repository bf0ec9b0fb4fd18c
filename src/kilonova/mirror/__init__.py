# SPDX-License-Identifier: Apache-2.0
"""The mirror: the scheduler's in-memory copy of the cloud's data, kept up to date from the change log.

In: commits, in order. Out: host and provider tables. Forbidden here: scheduling decisions and database writes.
"""
