"""Hazard: a server that cannot be reached is not reported with the strings that scripts look for."""

from __future__ import annotations

import pytest

from dm_master.inspection.inspected_server import open_server
from pkg.errors import Code, DMError
from pkg.settings.connections import DBConfig


def test_a_server_that_is_down_is_reported_with_dms_strings() -> None:
    with pytest.raises(DMError, match="Please check the database connection") as caught:
        open_server(DBConfig("127.0.0.1", 1), "downstream")
    assert caught.value.kind is Code.TaskCheckFailedOpenDB
    assert "connect: connection refused" in str(caught.value)
