"""Every decision of an expression filter is the real server's: random expressions over rows with edge values."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from datetime import timedelta, timezone
from typing import Any

import pymysql
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymysql.connections import Connection

from pkg.errors import DMError
from pkg.expression_filter import Filter, compile_filter
from pkg.mysql.introspect import read_tables
from pkg.mysql.schema import Column
from tests.harness.mysql import MariaDBServer, MySQLServer, SQLServer
from tests.integration.expressions import COLUMNS, CONDITIONS, VALUES

ZONE = timezone(timedelta(hours=5, minutes=30))
ROWS = 24
BATCH = 40
#: More by hand: EXPRESSION_BATCHES=2000.
BATCHES = int(os.environ.get("EXPRESSION_BATCHES", "25"))
OUT_OF_RANGE = 1690
