"""A privilege must not be seen where there is none, nor missed where a role or a pattern gives it."""

from __future__ import annotations

import pytest

from pkg.mysql.grants import Grants, roles_of


@pytest.mark.parametrize(
    ("line", "privilege", "place", "held"),
    [
        ("GRANT ALL PRIVILEGES ON *.* TO `root`@`%` WITH GRANT OPTION", "RELOAD", (), True),
        ("GRANT USAGE ON *.* TO 'u'@'%' IDENTIFIED BY PASSWORD '*X'", "SELECT", ("a", "t"), False),
        ("GRANT SELECT, RELOAD ON *.* TO 'u'@'%'", "SELECT", ("a", "t"), True),
        ("GRANT SELECT ON `a`.* TO 'u'@'%'", "SELECT", ("a", "t"), True),
        ("GRANT SELECT ON `a`.* TO 'u'@'%'", "SELECT", ("b", "t"), False),
        ("GRANT SELECT ON `a`.* TO 'u'@'%'", "SELECT", (), False),
        ("GRANT SELECT ON `a\\_1`.* TO 'u'@'%'", "SELECT", ("a_1", "t"), True),
        ("GRANT SELECT ON `a\\_1`.* TO 'u'@'%'", "SELECT", ("ax1", "t"), False),
        ("GRANT SELECT ON `a_%`.* TO 'u'@'%'", "SELECT", ("ab123", "t"), True),
        ("GRANT SELECT ON `a`.`t` TO 'u'@'%'", "SELECT", ("a", "t"), True),
        ("GRANT SELECT ON `a`.`t` TO 'u'@'%'", "SELECT", ("a", "t2"), False),
        ("GRANT SELECT ON `a`.`t` TO 'u'@'%'", "SELECT", ("a",), False),
        ("GRANT SELECT (`x`, `y`), INSERT ON `a`.`t` TO 'u'@'%'", "SELECT", ("a", "t"), False),
        ("GRANT SELECT (`x`, `y`), INSERT ON `a`.`t` TO 'u'@'%'", "INSERT", ("a", "t"), True),
        ("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO `u`@`%`", "REPLICATION CLIENT", (), True),
        ("GRANT FLUSH_TABLES ON *.* TO `u`@`%`", "RELOAD", (), True),
        ("GRANT SELECT ON `we``ird`.* TO `u`@`%`", "SELECT", ("we`ird", "t"), True),
        ("GRANT PROXY ON ''@'' TO 'root'@'%'", "SELECT", ("a", "t"), False),
    ],
)
def test_privileges_are_read_from_show_grants(line: str, privilege: str, place: tuple[str, ...], held: bool) -> None:
    assert Grants([line]).allows(privilege, *place) is held


def test_partial_revoke_takes_a_schema_out() -> None:
    grants = Grants(["GRANT SELECT ON *.* TO `u`@`%`", "REVOKE SELECT ON `secret`.* FROM `u`@`%`"])
    assert grants.allows("SELECT", "open", "t")
    assert not grants.allows("SELECT", "secret", "t")


def test_roles_are_distinguished_from_privileges() -> None:
    lines = ["GRANT USAGE ON *.* TO `u`@`%`", "GRANT `reader`@`%`,`dumper`@`%` TO `u`@`%`", "GRANT `r` TO `u`@`%`"]
    assert roles_of(lines) == ("`reader`@`%`", "`dumper`@`%`", "`r`")


def test_what_is_granted_on_single_objects_is_listed() -> None:
    grants = Grants(
        [
            "GRANT ALL PRIVILEGES ON `a`.* TO `u`@`%` WITH GRANT OPTION",
            "GRANT SELECT (`x`, `y z`), INSERT ON `a`.`t` TO `u`@`%`",
            "GRANT EXECUTE, ALTER ROUTINE ON PROCEDURE `a`.`p` TO `u`@`%`",
        ]
    )
    assert grants.tables() == {("a", "t")}
    assert grants.columns("a", "t") == {("SELECT", "x"), ("SELECT", "y z")}
    assert grants.routines("a") == {("procedure", "p", "EXECUTE"), ("procedure", "p", "ALTER ROUTINE")}
    assert grants.allows("GRANT OPTION", "a")
    assert not Grants(["GRANT ALL PRIVILEGES ON *.* TO `u`@`%`"]).allows("GRANT OPTION", "a")
