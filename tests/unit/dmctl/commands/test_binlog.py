"""The statements of binlog replace and inject must arrive one by one, as they were typed."""

from __future__ import annotations

import pytest

from pkg.pb import dmmaster_pb2 as master
from tests.harness.canned_master import CannedMaster
from tests.unit.dmctl.support import RunDmctl


def test_statements_are_split(dmctl: RunDmctl, fake: CannedMaster) -> None:
    fake.answers["HandleError"] = master.HandleErrorResponse()
    dmctl("binlog", "replace", "t", "alter table a.b comment ';'; drop table a.d; /* ; */", "drop table `;`.e")
    sqls = ["alter table a.b comment ';'", "drop table a.d", "/* ; */ drop table `;`.e"]
    assert list(fake.last("HandleError").sqls) == sqls


@pytest.mark.parametrize(
    ("words", "sqls"),
    [
        ("ALTER TABLE d.t ADD c INT", ["ALTER TABLE d.t ADD c INT"]),
        ("DROP TABLE d.t; DROP TABLE d.u;", ["DROP TABLE d.t", "DROP TABLE d.u"]),
        ("DROP TABLE d.t; /* note */", ["DROP TABLE d.t"]),
        ("DROP TABLE d.t; # note", ["DROP TABLE d.t"]),
        ("/*!50000 DROP TABLE d.t */; # note", ["/*!50000 DROP TABLE d.t */"]),
    ],
)
def test_a_statement_needs_no_quotes(dmctl: RunDmctl, fake: CannedMaster, words: str, sqls: list[str]) -> None:
    fake.answers["HandleError"] = master.HandleErrorResponse()
    dmctl("binlog", "replace", "t", *words.split())
    assert list(fake.last("HandleError").sqls) == sqls
    dmctl("binlog", "inject", "t", words)
    assert list(fake.last("HandleError").sqls) == sqls
