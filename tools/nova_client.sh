#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Test Kilonova's Placement with Nova's own Placement client. Arguments: those of pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/peer.sh nova
exec .venv-nova/bin/python -m pytest -c tests/nova_peer/pytest.ini --confcutdir=tests/nova_peer tests/nova_peer "$@"
