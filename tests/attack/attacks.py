# SPDX-License-Identifier: Apache-2.0
"""Table of all attacks, and the command that runs one in a process of its own.

python -m attack.attacks NAME TARGET SECONDS: prints counts and unacceptable responses as JSON.
"""

import json
import resource
import sys
from collections.abc import Mapping

from attack import amplification, big_bodies, lists, patterns, searches, slow_clients
from attack.attack import Attack, Outcome
from attack.target import Target

ATTACKS: Mapping[str, Attack] = {
    attack.name: attack
    for module in (slow_clients, big_bodies, patterns, searches, lists, amplification)
    for attack in module.ATTACKS
}


def main() -> None:
    name, target, seconds = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    outcome: Outcome = ATTACKS[name].run(Target.from_json(target), float(seconds))
    print(json.dumps(outcome.__dict__))


if __name__ == "__main__":
    main()
