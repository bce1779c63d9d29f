"""``python -m viewlet``: the command line, for an interpreter whose scripts are not on the path."""

import sys

from viewlet.cli import main

if __name__ == "__main__":
    sys.exit(main())
