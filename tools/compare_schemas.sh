#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compare the requests that Kilonova accepts, and its replies, with the schemas of Nova's API.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/peer.sh nova
PYTHONPATH=tests .venv-nova/bin/python -W ignore tests/schema_peer/nova_schemas.py |
    PYTHONPATH=tests:tests/api .venv/bin/python -m schema_peer
