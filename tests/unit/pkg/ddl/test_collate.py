"""Hazards: a charset without a collation slips through, a collation that was named changes, the text suffers."""

from __future__ import annotations

import re

import pytest

from pkg import ddl
from pkg.ddl.tokens import tokenize
from pkg.errors import Code, DMError
from pkg.schema_tracker import ServerDefaults
from tests.ddl_corpus import FLAVORS, Flavor
from tests.unit.pkg.ddl.respelling import respelt
from tests.unit.pkg.ddl.test_corpus_texts import NEWEST

MYSQL57 = ServerDefaults("mysql", (5, 7, 22), "utf8mb4", "utf8mb4_general_ci")
#: What is inserted stands between these signs.
_INSERTED = re.compile("«[^»]*»")


def written_out(sql: str, server: ServerDefaults = MYSQL57, of_schema: str = "") -> str:
    statement = ddl.parse(sql, default_schema="d", flavor=server.flavor, version=server.version)
    return ddl.with_collations(statement, server.default_collation, of_schema)


def check(marked: str, server: ServerDefaults = MYSQL57, of_schema: str = "") -> None:
    wanted = marked.replace("«", "").replace("»", "")
    assert written_out(_INSERTED.sub("", marked), server, of_schema) == wanted
    assert written_out(wanted, server, of_schema) == wanted


_G = "« COLLATE utf8mb4_general_ci»"
_L = "« COLLATE latin1_swedish_ci»"


@pytest.mark.parametrize(
    "marked",
    [
        f"CREATE TABLE t (a INT) DEFAULT CHARSET=utf8mb4{_G}",
        f"create table t (a int)engine=InnoDB,character\n set\tutf8mb4{_G},comment='CHARSET=latin1'",
        "CREATE TABLE t (a INT) CHARSET='utf8mb4'« COLLATE utf8mb4_general_ci »COMMENT'x'",
        f"CREATE TABLE t (a INT) CHARSET `latin1`{_L}/* x */ENGINE=InnoDB",
        f"CREATE TABLE t (a INT) DEFAULT CHARSET=UTF8MB4{_G} PARTITION BY HASH (a) PARTITIONS 2",
        f"CREATE TABLE t (a INT) /*!50100 DEFAULT CHARSET=utf8mb4{_G}*/",
        f"CREATE TABLE t (a INT) /* CHARSET=latin1 */ CHARSET=utf8mb4{_G} -- CHARSET=latin1",
        "CREATE TABLE t (a INT) CHARSET=utf8« COLLATE utf8_general_ci»",
        "CREATE TABLE t (a INT) CHARSET=utf8mb3« COLLATE utf8mb3_general_ci»",
        f"ALTER TABLE t DEFAULT CHARACTER SET = utf8mb4{_G}, ENGINE=InnoDB",
        f"ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4{_G}, ADD a INT",
        f"ALTER TABLE t CONVERT TO CHARACTER SET latin1{_L}, DEFAULT CHARSET utf8mb4 COLLATE utf8mb4_bin",
        f"CREATE DATABASE `d` /*!40100 DEFAULT CHARACTER SET utf8mb4{_G} */",
        f"CREATE SCHEMA d CHARSET utf8mb4{_G}",
        f"ALTER DATABASE d CHARACTER SET latin1{_L}",
        f"ALTER DATABASE CHARACTER SET latin1{_L}",
    ],
)  # fmt: skip
def test_options(marked: str) -> None:
    check(marked)


@pytest.mark.parametrize(
    "marked",
    [
        f"VARCHAR(3) CHARACTER SET latin1{_L} NOT NULL DEFAULT 'CHARACTER SET latin1' COMMENT 'CHARSET latin1'",
        f"TEXT CHARSET latin1{_L}",
        f"ENUM('a','CHARSET latin1') CHARSET latin1{_L} NULL",
        f"CHAR(3) ASCII{_L}",
        "CHAR(3) UNICODE« COLLATE ucs2_general_ci»",
        f"/*!50000 CHAR(3) CHARACTER SET latin1{_L} */ NOT NULL",
        # MySQL 5.7 takes no attribute between a generated column's collation and its expression.
        f"CHAR(9) CHARACTER SET latin1{_L} GENERATED ALWAYS AS (CONVERT('x' USING utf8mb4)) STORED",
        "VARCHAR(9) CHARACTER SET latin1 NOT NULL COLLATE latin1_bin",
        "VARCHAR(9) COLLATE latin1_bin CHARACTER SET latin1",
        # These choose the collation by code points.
        "CHAR(9) CHARACTER SET latin1 BINARY",
        "CHAR(9) BINARY CHARACTER SET latin1",
        "CHAR(9) CHARACTER SET binary",
        "CHAR(9) BYTE",
        "VARCHAR(9)",
    ],
)  # fmt: skip
def test_columns(marked: str) -> None:
    for before, behind in (
        ("CREATE TABLE t (", ")"),
        ("CREATE TABLE t (a INT, KEY (a),", ", b JSON) COLLATE utf8mb4_bin"),
        ("ALTER TABLE t ADD COLUMN", " FIRST"),
        ("ALTER TABLE t ADD (a INT,", ", b INT)"),
        ("ALTER TABLE t MODIFY", ""),
        ("ALTER TABLE t CHANGE collation", " AFTER `charset`, ADD KEY (a)"),
    ):
        for name in ("`character set`", "charset", "`COLLATE`"):
            check(f"{before} {name} {marked}{behind}")


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE t (a CHAR(3)) CHARSET utf8mb4 COLLATE utf8mb4_bin",
        "CREATE TABLE t (a CHAR(3)) CHARSET=utf8mb4 ENGINE=InnoDB DEFAULT COLLATE = 'utf8mb4_bin'",
        "CREATE TABLE t (a CHAR(3)) COLLATE utf8mb4_bin",
        "CREATE TABLE t (a CHAR(3)) CHARACTER SET binary",
        "CREATE TABLE t (a CHAR(3)) CHARACTER SET DEFAULT",
        "CREATE TABLE t LIKE u",
        "ALTER TABLE t CHARSET utf8mb4 COLLATE utf8mb4_bin",
        "ALTER TABLE t CHARSET=utf8mb4, ADD a INT, COLLATE=utf8mb4_bin",
        "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "ALTER TABLE t CONVERT TO CHARACTER SET DEFAULT",
        "ALTER TABLE t ALTER a SET DEFAULT 'CHARSET latin1', RENAME `charset`",
        "CREATE DATABASE d CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
        "CREATE DATABASE d COLLATE utf8mb4_bin",
        "ALTER DATABASE d COLLATE utf8mb4_bin",
        "DROP TABLE `charset`",
        "RENAME TABLE `charset` TO `collate`",
        "CREATE INDEX i ON t (a)",
    ],
)
def test_what_names_a_collation_or_no_charset_stays(sql: str) -> None:
    assert written_out(sql, of_schema="gbk_bin") == sql


def test_a_collation_before_the_charset_holds_for_mariadb_alone() -> None:
    created, altered = "CREATE TABLE t (a INT) COLLATE utf8mb4_bin CHARSET utf8mb4", "ALTER TABLE t COLLATE utf8mb4_bin"
    for sql in (created, f"{altered} CHARSET utf8mb4", f"{altered}, CHARSET utf8mb4"):
        check(sql, ServerDefaults())
        check(f"{sql}{_G}")


@pytest.mark.parametrize(
    "marked",
    [
        "CREATE DATABASE x« COLLATE gbk_bin»",
        "CREATE DATABASE IF NOT EXISTS `charset`« COLLATE gbk_bin»;",
        # Not in a comment that an older target does not read.
        "CREATE DATABASE x« COLLATE gbk_bin» /*!50700 ENCRYPTION='N' */",
        "CREATE DATABASE x« COLLATE gbk_bin»/*!50700 ENCRYPTION='N' */",
        "CREATE DATABASE x CHARACTER SET DEFAULT« COLLATE gbk_bin»",
        "CREATE DATABASE x COLLATE utf8_bin",
        f"CREATE DATABASE x CHARSET utf8mb4{_G}",
        "ALTER DATABASE x ENCRYPTION='N'",
    ],
)
def test_a_new_schema_without_a_charset_gets_the_server_s(marked: str) -> None:
    check(marked, of_schema="gbk_bin")
    assert written_out("CREATE DATABASE x") == "CREATE DATABASE x"


def test_defaults_are_those_of_the_upstream() -> None:
    sql = "CREATE TABLE t (a INT) CHARSET utf8mb4"
    assert written_out(sql, ServerDefaults("mysql", (8, 0, 12))) == f"{sql} COLLATE utf8mb4_0900_ai_ci"
    assert written_out(sql, ServerDefaults("mariadb", (11, 5, 0))) == f"{sql} COLLATE utf8mb4_uca1400_ai_ci"


def test_a_charset_that_is_not_known_stops() -> None:
    with pytest.raises(DMError) as caught:
        written_out("CREATE TABLE t (a INT) CHARSET martian")
    assert caught.value.kind is Code.SyncerParseDDL
    assert "martian" in caught.value.message


@pytest.mark.parametrize("flavor", FLAVORS)
def test_the_corpus_means_the_same_with_its_collations(flavor: Flavor) -> None:
    """The schema tracker comes to the same structures, and the text between insertions is the same to the byte."""
    server = ServerDefaults(flavor, NEWEST[flavor])
    changed = 0

    def spell(statement: ddl.DDLStatement) -> str:
        return ddl.with_collations(statement, server.default_collation, server.default.collation)

    for one in respelt(flavor, server, spell):
        sql = one.line.sql
        ends = [0, *(token.end for token in tokenize(sql, one.statement.dialect))]
        pieces = [sql[start:end] for start, end in zip(ends, [*ends[1:], len(sql)], strict=True)]
        assert re.fullmatch(r"(?: COLLATE \w+ ?)?".join(map(re.escape, pieces)), one.text), (one.line.place, one.text)
        assert one.before.tables() == one.after.tables(), (one.line.place, one.text)
        changed += one.text != sql
    assert changed > 50
