"""`python -m engine_simulator [serve] MODEL ...`: see --help and docs/simulator.md."""

import sys

from .flags import parse
from .server import main_loop

if __name__ == "__main__":
    sys.exit(main_loop(parse(sys.argv[1:])))
