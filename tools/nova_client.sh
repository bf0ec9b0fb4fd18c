#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Run Nova's own Placement client against Kilonova's Placement. Arguments: as of pytest.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/peer.sh nova
exec .venv-nova/bin/python -m pytest -c tests/nova_peer/pytest.ini --confcutdir=tests/nova_peer tests/nova_peer "$@"
