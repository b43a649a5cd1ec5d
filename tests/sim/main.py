"""Many histories, one after another; the first seed that breaks a promise is printed."""

from __future__ import annotations

import argparse
import sys
import traceback

from tests.sim.histories import history_of
from tests.sim.world import SimWorld


def main() -> int:
    """Run seeds; the exit status says whether all went well."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first one")
    parser.add_argument("--keep-going", action="store_true", help="print every seed that fails")
    options = parser.parse_args()
    failed = 0
    for seed in range(options.first, options.first + options.seeds):
        try:
            SimWorld(history_of(seed)).run()
        except Exception:  # noqa: BLE001 - a seed that crashes is a finding like any other
            failed += 1
            traceback.print_exc()
            print(f"seed {seed} failed; replay: scripts/sim --seeds 1 --first {seed}")
            if not options.keep_going:
                break
    print(f"{failed} of {options.seeds} seeds failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
