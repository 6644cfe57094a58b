"""``make test-monitoring`` runs these tests: they fetch Debian's Prometheus. `make test` leaves them out."""

from __future__ import annotations

import os

collect_ignore_glob = [] if "DM_TEST_MONITORING" in os.environ else ["test_*.py"]
