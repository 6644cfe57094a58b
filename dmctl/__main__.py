"""``python -m dmctl``."""

import sys

from dmctl.cli import main

sys.exit(main())
