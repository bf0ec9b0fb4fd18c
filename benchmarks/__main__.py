# SPDX-License-Identifier: Apache-2.0
"""Run the named benchmarks, or all: ``python -m benchmarks [NAME ...] [-- OPTION ...]``."""

import importlib
import pkgutil
import sys

import benchmarks


def main(arguments: list[str]) -> int:
    known = sorted(m.name for m in pkgutil.iter_modules(benchmarks.__path__) if not m.name.startswith("_"))
    split = arguments.index("--") if "--" in arguments else len(arguments)
    wanted, options = arguments[:split] or known, arguments[split + 1 :]
    unknown = [name for name in wanted if name not in known]
    if unknown:
        print(f"There is no benchmark {unknown[0]!r}. Known ones: {', '.join(known)}.", file=sys.stderr)
        return 2
    for name in wanted:
        print(f"\n== {name} ==", flush=True)
        importlib.import_module(f"benchmarks.{name}").main(options)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
