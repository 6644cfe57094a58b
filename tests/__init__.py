"""The tests. Assertions of their helpers show values as those of the tests do."""

import pytest

pytest.register_assert_rewrite(
    "tests.harness", "tests.integration", "tests.e2e", "tests.faults", "tests.fuzz", "tests.tidb", "tests.unit"
)
