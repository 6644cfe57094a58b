"""``python -m dm_master``."""

import sys

from dm_master.cli import main

sys.exit(main())
