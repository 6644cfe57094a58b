"""Sweeps have two forms: ``make test`` runs a bounded one, ``make test-long`` the whole."""

from __future__ import annotations

import os

#: Whether the whole forms run.
LONG = "DM_TEST_LONG" in os.environ
