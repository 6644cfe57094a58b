"""The versions of MySQL on which tests run that try each version."""

from __future__ import annotations

import os

from deploy.local.mysql import MYSQL_VERSIONS

#: With DM_TEST_SERVERS=all (`make test-servers`) all of them.
MYSQL_TRIED = MYSQL_VERSIONS if os.environ.get("DM_TEST_SERVERS") == "all" else ("5.6", "5.7", "8.0")
NEWEST_TRIED = tuple(version for version in MYSQL_TRIED if version in ("8.0-newest", "8.4", "9.7"))
