"""``python -m viewlet.cli``, for where the script is not on the path."""

import sys

from viewlet.cli import main

sys.exit(main())
