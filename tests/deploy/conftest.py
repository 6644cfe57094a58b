"""``make test-deploy`` runs these tests: they need Go, and build wheels. `make test` leaves them out."""

from __future__ import annotations

import os

collect_ignore_glob = [] if "DM_TEST_DEPLOY" in os.environ else ["test_*.py"]
