"""Run the command line by `python -m reconet` or `torchrun -m reconet`."""

import sys

from reconet.cli import main

if __name__ == "__main__":
    sys.exit(main())
