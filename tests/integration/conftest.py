"""What of these tests is run."""

from __future__ import annotations

from tests.harness.versions import NEWEST_TRIED

#: Its servers come from other distributions' packages: `make test-servers` runs it.
collect_ignore = [] if NEWEST_TRIED else ["test_newest_mysql.py"]
