"""Hazard: a foreign key has another name than upstream, and DROP FOREIGN KEY leaves it there or drops another one."""

from __future__ import annotations

import pytest

from pkg.ddl import (
    Dialect,
    by_copying,
    key_names,
    missing_foreign_key,
    parse,
    renamed_with_table,
    split_alter,
    with_key_names,
)

_REF = "REFERENCES d.p (id)"
#: As TiDB shows it.
_SHOWN = (
    "CREATE TABLE `t` (\n  `a` int DEFAULT NULL,\n  KEY `a` (`a`),\n"
    "  CONSTRAINT `t_ibfk_2` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE CASCADE,\n"
    "  CONSTRAINT `t_ibfk_10` FOREIGN KEY (`a`) REFERENCES `d`.`p` (`id`),\n"
    "  CONSTRAINT `T_IBFK_30` FOREIGN KEY (`a`) REFERENCES `p` (`id`),\n"
    "  CONSTRAINT `t_ibfk_040` FOREIGN KEY (`a`) REFERENCES `p` (`id`),\n"
    "  CONSTRAINT `mine` FOREIGN KEY (`a`) REFERENCES `p` (`id`)\n"
    ") ENGINE=InnoDB"
)
_TIDB_NAMED = _SHOWN.replace("`mine`", "`fk_1`")


def _named(sql: str, shown: str = "", flavor: str = "mysql", whole: str = "") -> str:
    statement = parse(sql, flavor=flavor)
    table = parse(shown, default_schema="d").body if shown else None
    names = key_names(statement, table, parse(whole, flavor=flavor) if whole else None)
    named = with_key_names(statement, names)
    return " ".join(named.sql.split())


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (f"CREATE TABLE d.t (a INT, FOREIGN KEY (a) {_REF}, CONSTRAINT t_ibfk_7 FOREIGN KEY (a) {_REF}, "
         f"FOREIGN KEY idx (a) {_REF}, CONSTRAINT FOREIGN KEY(a) {_REF})",
         f"CREATE TABLE d.t (a INT, FOREIGN KEY `t_ibfk_1` (a) {_REF}, CONSTRAINT t_ibfk_7 FOREIGN KEY (a) {_REF}, "
         f"FOREIGN KEY idx (a) {_REF}, CONSTRAINT FOREIGN KEY `t_ibfk_2` (a) {_REF})"),
        (f"CREATE TABLE d.`a``b c` (a INT, FOREIGN KEY (a) {_REF})",
         f"CREATE TABLE d.`a``b c` (a INT, FOREIGN KEY `a``b c_ibfk_1` (a) {_REF})"),
    ],
)  # fmt: skip
def test_new_tables_count_from_one(sql: str, expected: str) -> None:
    assert _named(sql) == expected


def test_an_altered_table_counts_from_its_highest_number() -> None:
    assert _named(f"ALTER TABLE d.t ADD FOREIGN KEY (a) {_REF}, ADD (b INT, FOREIGN KEY (b) {_REF})", _SHOWN) == (
        f"ALTER TABLE d.t ADD FOREIGN KEY `t_ibfk_11` (a) {_REF}, ADD (b INT, FOREIGN KEY `t_ibfk_12` (b) {_REF})"
    )


def test_a_number_that_the_statement_drops_is_not_given_again_also_when_it_was_dropped_in_a_part_before() -> None:
    whole = f"ALTER TABLE d.t DROP FOREIGN KEY t_ibfk_10, ADD FOREIGN KEY (a) {_REF}"
    assert _named(whole, _SHOWN).endswith(f"ADD FOREIGN KEY `t_ibfk_11` (a) {_REF}")
    behind = _SHOWN.replace("t_ibfk_10", "other")
    part = split_alter(parse(whole))[1].sql
    assert _named(part, behind, whole=whole).endswith(f"ADD FOREIGN KEY `t_ibfk_11` (a) {_REF}")


@pytest.mark.parametrize(
    ("parts", "copied"),
    [
        (f"ADD b INT, ADD FOREIGN KEY (b) {_REF}", True),
        (f"ADD b INT {_REF}", True),
        (f"ADD (b INT, FOREIGN KEY (b) {_REF})", True),
        # What MariaDB names rightly, what has a name, and what says itself how it runs.
        (f"ADD FOREIGN KEY (b) {_REF}", False),
        (f"ADD FOREIGN KEY (b) {_REF}, ADD KEY (b)", False),
        (f"ADD b INT, ADD CONSTRAINT c FOREIGN KEY (b) {_REF}", False),
        (f"ADD b INT, ADD FOREIGN KEY (b) {_REF}, ALGORITHM=COPY", False),
        ("ADD b INT, ADD c INT", False),
    ],
)
def test_keys_without_a_name_are_created_in_mariadb_by_a_copy_of_the_table(parts: str, copied: bool) -> None:
    sql = f"ALTER TABLE d.t {parts}"
    assert by_copying(sql, Dialect.of("", "mariadb")) == (f"{sql}, ALGORITHM=COPY" if copied else sql)


def test_references_of_columns_count_where_they_make_a_key() -> None:
    sql = "CREATE TABLE d.t (a INT REFERENCES p (id), b INT, FOREIGN KEY (b) REFERENCES p (id))"
    assert "FOREIGN KEY `t_ibfk_2` (b)" in _named(sql, flavor="mariadb")
    assert "FOREIGN KEY `t_ibfk_1` (b)" in _named(sql, flavor="mysql")


def test_nothing_is_guessed_where_tidb_has_named_keys() -> None:
    sql = f"ALTER TABLE d.t ADD FOREIGN KEY (a) {_REF}"
    assert _named(sql, _TIDB_NAMED) == sql


@pytest.mark.parametrize(
    ("sql", "shown", "missing"),
    [
        ("ALTER TABLE d.t DROP FOREIGN KEY t_ibfk_2, DROP FOREIGN KEY MINE", _SHOWN, ""),
        ("ALTER TABLE d.t DROP COLUMN b, DROP FOREIGN KEY t_ibfk_1", _SHOWN, "t_ibfk_1"),
        ("ALTER TABLE d.t DROP CONSTRAINT t_ibfk_1", _SHOWN, "t_ibfk_1"),
        ("ALTER TABLE d.t DROP CONSTRAINT some_check", _SHOWN, ""),
        ("ALTER TABLE d.t DROP FOREIGN KEY IF EXISTS t_ibfk_1", _SHOWN, ""),
        # Of a name that a person chose, the target may have a key that was found a name for, but no other one.
        ("ALTER TABLE d.t DROP FOREIGN KEY gone", _SHOWN, "gone"),
        ("ALTER TABLE d.t DROP FOREIGN KEY gone", "  CONSTRAINT `mine` FOREIGN KEY (`a`) REFERENCES `p` (`id`)", ""),
        ("ALTER TABLE d.t DROP FOREIGN KEY __x", "  CONSTRAINT `_X` FOREIGN KEY (`a`) REFERENCES `p` (`id`)", "__x"),
        ("ALTER TABLE d.t DROP FOREIGN KEY t_ibfk_1", "CREATE TABLE `t` (\n  `a` int\n)", ""),
        ("ALTER TABLE d.t DROP FOREIGN KEY t_ibfk_1", "", ""),
    ],
)
def test_a_dropped_key_that_the_target_calls_by_another_name_is_found_out(sql: str, shown: str, missing: str) -> None:
    found = missing_foreign_key(parse(sql, flavor="mariadb"), shown)
    assert (found[0] if found else "") == missing


def test_keys_follow_the_name_of_their_table_as_upstream() -> None:
    assert list(renamed_with_table(_SHOWN, ("d", "u"), "t", "u")) == [
        (
            "t_ibfk_2",
            "ALTER TABLE `d`.`u` ADD CONSTRAINT `u_ibfk_2` FOREIGN KEY (`a`) REFERENCES `d`.`p` (`id`) "
            "ON DELETE CASCADE, DROP FOREIGN KEY `t_ibfk_2`",
        ),
        (
            "t_ibfk_10",
            "ALTER TABLE `d`.`u` ADD CONSTRAINT `u_ibfk_10` FOREIGN KEY (`a`) REFERENCES `d`.`p` (`id`), "
            "DROP FOREIGN KEY `t_ibfk_10`",
        ),
    ]
    assert not list(renamed_with_table(_SHOWN, ("e", "t"), "t", "t"))
    assert not list(renamed_with_table(_SHOWN, ("d", "l" * 60), "t", "l" * 60))
