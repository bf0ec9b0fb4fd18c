#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compare Kilonova's policy rules with the rules that Nova registers.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/peer.sh nova
.venv-nova/bin/python tests/policy_peer/nova_rules.py | PYTHONPATH=tests .venv/bin/python -m policy_peer
